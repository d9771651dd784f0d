"""`class_weight` "balanced" weighs labels alike, on the command line, over HTTP and in Python."""

import json

import pytest

from streamsvm import StreamSVC, load
from streamsvm.service.cli import main
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import parse_spec

ROWS = "label,a\n" + "".join(f"{'no' if k % 5 else 'yes'},{k % 7 + (k % 5 == 0) * 3}\n" for k in range(60))


def evaluated(directory, capfd):
    """The objective by `streamsvm evaluate`."""
    capfd.readouterr()
    assert main(["evaluate", str(directory / "m.npz"), str(directory / "t.csv"), "--json"]) == 0
    return json.loads(capfd.readouterr().out)["objective"]


def test_labels_weigh_alike(tmp_path, capfd):
    (tmp_path / "t.csv").write_text(ROWS)
    told = ["--class-weight", "yes=2.5", "--class-weight", "no=0.625"]
    weights = {"balanced": ["--class-weight", "balanced"], "told": told}
    found, objectives = {}, {}
    for name, options in weights.items():
        assert main(["train", str(tmp_path / "t.csv"), *options, "-o", str(tmp_path / "m.npz")]) == 0
        model = load(tmp_path / "m.npz").model_
        found[name], objectives[name] = model.w.tolist(), evaluated(tmp_path, capfd)
        # What was trained is what an evaluation sums up.
        assert objectives[name] == pytest.approx(model.about["certificate"]["primal_objective"], rel=1e-6)
    assert found["balanced"] == found["told"] and objectives["balanced"] == objectives["told"]
    model = StreamSVC(class_weight="balanced").fit(tmp_path / "t.csv")
    assert model.coef_.ravel().tolist() == pytest.approx([abs(w) for w in found["told"]], rel=1e-3)


def test_rows_with_weights_are_not_balanced_by_their_number(tmp_path):
    lines = ROWS.splitlines()
    (tmp_path / "t.csv").write_text("\n".join([lines[0] + ",w", *(f"{line},2" for line in lines[1:])]))
    options = ["--weight-column", "w", "--class-weight", "balanced", "-o", str(tmp_path / "m.npz")]
    assert main(["train", str(tmp_path / "t.csv"), *options]) == 2


@pytest.mark.parametrize("given", ["balance", {"1": 0}, ["balanced"]])
def test_other_words_are_refused(given):
    with pytest.raises(ServiceError):
        parse_spec({"dataset": "d", "class_weight": given})
    assert parse_spec({"dataset": "d", "class_weight": "balanced"}).class_weight == "balanced"
