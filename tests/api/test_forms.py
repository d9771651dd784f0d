"""Files are read in the form that the model was trained on, by every way in, whatever they are called."""

import json

import pytest

import streamsvm
from streamsvm.service.cli import main
from streamsvm.service.models.exports import MODEL_FORMATS
from tests.api.app import Service

LABELS, SIGNS = ["good", "bad"] * 20, [-1, 1] * 20
TEXTS = [f"{'fine' if k % 2 else 'dull'} film, meet at 10:{k}; 3:4 {{today}}" for k in range(40)]
X = [f"{1 + k / 8 if k % 2 else -1 - k / 8}" for k in range(40)]
COLORS = ["red, wide" if k % 3 else "blue" for k in range(40)]
OBJECTS = [json.dumps({"x": float(x), "answer": label}) for x, label in zip(X, LABELS, strict=True)]


def lines(row: str, *columns, head: str = "") -> str:
    return head + "".join(row.format(*cells) + "\n" for cells in zip(*columns, strict=True))


# Form -> the options of training, its file, and the rows of the file without labels.
FORMS = {
    "text": ([], lines("{}\t{}", LABELS, TEXTS), lines("{}", TEXTS)),
    "text of numbers": ([], lines("{}\t{}", SIGNS, TEXTS), lines("{}", TEXTS)),
    "text in a column": (
        ["--text-column=text", "--delimiter=;"],
        lines('"{}";{};"{}"', COLORS, LABELS, TEXTS, head="a, b;label;text\n"), lines('"{}"', TEXTS, head="text\n"),
    ),
    "table": (
        ["--decimal=comma", "--label-column=answer"],
        lines("{};{}", LABELS, X, head="answer;x\n").replace(".", ","), lines("{}", X, head="x\n"),
    ),
    "no names": (
        ["--header=no", "--label-column=-1", "--categorical=1"],
        lines("{};{};{}", COLORS, X, LABELS), lines("{};{}", COLORS, X),
    ),
    "pairs": ([], lines("{} 7:{}", SIGNS, X), lines("0 7:{}", X)),
    "objects": (["--label-column=answer"], lines("{}", OBJECTS), lines('{{"x": {}}}', X)),
}  # fmt: skip


@pytest.fixture(scope="module", params=FORMS)
def form(request, tmp_path_factory):
    """A folder with a model of a form, files of its rows with other names, and whether they are documents."""
    folder, (options, *texts) = tmp_path_factory.mktemp("form"), FORMS[request.param]
    for kind, text in zip(("labelled", "plain"), texts, strict=True):
        for ending in (".csv", ".tsv", ""):
            (folder / f"{kind}{ending}").write_text(text)
    assert main(["train", str(folder / "labelled"), *options, "-o", str(folder / "m.npz")]) == 0
    return folder, request.param.startswith("text")


@pytest.mark.parametrize("way", ["command", "files", "Python", "HTTP"])
def test_rows_are_read_as_those_of_training(form, way, capsys):
    """Labels change no decision value, and judge."""
    (folder, are_documents), values = form, {}
    model, out, service = folder / "m.npz", folder / "out.ndjson", Service(folder / way)
    for file in [folder / "labelled", folder / "plain"] if way == "HTTP" else folder.glob("[lp]*"):
        is_labelled, asked = file.name.startswith("labelled"), [str(model), str(file)]
        if way == "command":
            assert not is_labelled or (main(["evaluate", *asked]) == 0 and "accuracy  1\n" in capsys.readouterr().out)
            assert capsys.readouterr() and main(["predict", *asked, "--decision-values"]) == 0
            lines_, said = capsys.readouterr()
            values[file.name] = [float(line.split()[1]) for line in lines_.splitlines()]
        elif way == "files":
            assert main(["predict", *asked, "-o", str(out)]) == 0
            values[file.name] = [json.loads(line)["decision_value"] for line in out.read_text().splitlines()]
            said = capsys.readouterr().err
        elif way == "Python":
            values[file.name] = streamsvm.load(model).decision_function(file).tolist()
            said = f"accuracy {streamsvm.load(model).score(file):.4%} (40/40)" if is_labelled else ""
        else:
            with model.open("rb") as stored:
                name = service.add_model(service.add_dataset(file.name), MODEL_FORMATS["npz"].read(stored))
            answer = service.request("POST", f"/v1/models/{name}/predict", content=file.read_bytes()).json()
            values[file.name], said = [row["decision_value"] for row in answer["predictions"]], answer.get("judged", "")
        assert ("accuracy 100.0000% (40/40)" in said) == (is_labelled and (way != "HTTP" or are_documents)), file.name
    assert all(found == values["plain"] and len(found) == 40 for found in values.values())
