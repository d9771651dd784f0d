"""Files are read in the form that the model was trained on, by every way in; so is the row that its page shows."""

import html
import json
import re
import subprocess

import numpy as np
import pytest

import streamsvm
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.options import InputOptions
from streamsvm.service.cli import main
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.storage.models.model_file import Model
from tests.api.app import Service

CSV = {"format": "csv", "label_column": "y"}
INPUTS = {
    "one feature": (b"1 1:2\n-1 1:3\n", {}),
    "from 0": (b"1 0:2 6:1\n-1 1:3\n", {"index_base": 0}),
    "a table": (b"y,a,b\n1,0.5,3\n0,1.5,4\n", CSV),
    "words": (b"y,a,col\n1,0.5,red\n0,1.5,blue\n", {**CSV, "categorical": ("col",)}),
    "odd names": (b'y,"it\'s, 5%","a\\""b"\n1,0.5,3\n0,1.5,4\n', CSV),
    "no names": (b"1,0.5,3\n0,1.5,4\n", {"format": "csv"}),
    "tabs": (b"y\ta\tb\n1\t0.5\t3\n0\t1.5\t4\n", {"format": "tsv", "label_column": "y"}),
    "texts": (b"1\tone text\n-1\tanother\n", {"format": "text"}),
}
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
    "text without names": (
        ["--text-column=1", "--label-column=3", "--delimiter=;"],
        lines('"{}";{};{}', TEXTS, X, LABELS), lines('"{}"', TEXTS),
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


NAMES = {False: ("labelled.tsv", "plain.csv", "plain"), True: ("labelled", "plain")}


pytestmark = pytest.mark.filterwarnings("ignore:.*rows_contrary")


@pytest.fixture(scope="module", params=FORMS)
def form(request, tmp_path_factory):
    """A folder with a model of a form, and files of its rows with other names."""
    folder, (options, *texts) = tmp_path_factory.mktemp("form"), FORMS[request.param]
    for kind, text in zip(("labelled", "plain"), texts, strict=True):
        (folder / kind).write_text(text)
    # Names tell nothing.
    (folder / "labelled.tsv").write_text(texts[0])
    (folder / "plain.csv").write_text(texts[1])
    assert main(["train", str(folder / "labelled"), *options, "-o", str(folder / "m.npz")]) == 0
    return folder


@pytest.mark.parametrize("way", ["command", "files", "Python", "HTTP"])
def test_rows_are_read_as_those_of_training(form, way, capsys):
    """Labels change no decision value, and judge."""
    folder, values = form, dict[str, list[float]]()
    model, out, service = folder / "m.npz", folder / "out.ndjson", Service(folder / way)
    for file in (folder / name for name in NAMES[way == "HTTP"]):
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
        assert ("accuracy 100.0000% (40/40)" in said) == is_labelled, file.name
    assert all(found == values["plain"] and len(found) == 40 for found in values.values())


@pytest.mark.parametrize("name", INPUTS)
def test_the_command_predicts(tmp_path, name):
    service = Service(tmp_path)
    text, options = INPUTS[name]
    manifest = ingest([text], tmp_path / "read", InputOptions(**options))
    about = {"loss": "hinge", **({} if manifest.input is None else {"input": manifest.input})}
    width = manifest.n_features
    model = service.add_model(
        service.add_dataset("data"), Model(np.ones(width), (1.0, -1.0), manifest.index_base, about=about)
    )
    shown = re.search('<pre id="example">(.*?)</pre>', service.request("GET", f"/models/{model}").text)
    printf, kind = re.fullmatch(
        r"(printf .*) \| curl -H 'Content-Type: (.*)' --data-binary @- .*", html.unescape(shown[1])
    ).groups()
    body = subprocess.run(["sh", "-c", printf], capture_output=True, check=True).stdout
    answer = service.request("POST", f"/v1/models/{model}/predict", content=body, headers={"Content-Type": kind})
    assert answer.status_code == 200, (answer.text, body)
    assert answer.json()["rows"] == body.count(b"\n") - ("label_column" in options)
    assert not answer.json().get("unknown_columns")


def test_a_table_of_many_columns_has_a_file_in_its_command(tmp_path):
    service = Service(tmp_path)
    input_ = {"format": "csv", "has_names": True, "columns": [f"c{k}" for k in range(200)]}
    model = Model(np.ones(200), (1.0, -1.0), 1, about={"loss": "hinge", "input": input_})
    text = service.request("GET", f"/models/{service.add_model(service.add_dataset('data'), model)}").text
    assert '<pre id="example">curl --data-binary @FILE http://localhost/v1/models/' in text
