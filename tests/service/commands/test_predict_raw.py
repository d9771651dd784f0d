"""`streamsvm predict` and loaded models on tables with categories and strings of bases."""

import numpy as np
import pytest

from streamsvm import InvalidInput, load
from streamsvm.loading import FittedModel
from streamsvm.service.cli import main
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.predicting.predictor import Predictor
from tests.raw_models import by_letters, string_model, table_model


@pytest.fixture
def files(tmp_path):
    """Model files by name."""
    found = {}
    for name, model in {"table": table_model(), "strings": string_model()}.items():
        found[name] = tmp_path / f"{name}.npz"
        found[name].write_bytes(b"".join(MODEL_FORMATS["npz"].write(model)))
    return found


def predict(model, name: str, text: str, *options) -> int:
    file = model.with_name(name)
    file.write_text(text)
    return main(["predict", str(model), str(file), "--decision-values", *options])


@pytest.mark.parametrize(("name", "text"), [("x.fa", ">label=1\nAAGT\n>label=1\nTTTT\n"), ("x.txt", "AAGT\nTTTT\n")])
def test_strings(files, name, text, capsys, monkeypatch):
    monkeypatch.setattr(Predictor, "predict", by_letters)
    assert predict(files["strings"], name, text) == 0
    said = capsys.readouterr()
    assert said.out == "1 0.5\n-1 -1.5\n"
    assert ("accuracy 50.0000% (1/2)" in said.err) == (name == "x.fa")


ROWS = [{"size": 2, "proto": "udp", "flag": "S0"}, {"size": float("nan"), "proto": "tcp", "flag": None}]


@pytest.mark.parametrize("as_table", [False, True])
def test_loaded_models_of_tables(files, as_table):
    X = pytest.importorskip("pandas").DataFrame(ROWS) if as_table else ROWS
    model = load(files["table"])
    assert model.decision_function(X).tolist() == [111.0, 1.0]
    assert model.predict(X).tolist() == [1, 1]
    assert FittedModel(table_model()).predict(X).tolist() == [1, 1]


def test_loaded_models_of_tables_take_numbers_still(files):
    assert load(files["table"]).decision_function(np.eye(4)).tolist() == [0.5, 1.0, 10.0, 100.0]


def test_loaded_models_of_strings(files, monkeypatch):
    model = load(files["strings"])
    with pytest.raises(InvalidInput, match="string_length"):
        model.predict(["ACGT", "ACG"])
    monkeypatch.setattr(Predictor, "predict", by_letters)
    assert model.decision_function(["ACGT", "AAAA"]).tolist() == [-0.5, 2.5]


def test_rows_that_cannot_be_read(files):
    with pytest.raises(InvalidInput, match="line 2: size is not a number"):
        load(files["table"]).predict([ROWS[0], {"size": "big"}])
