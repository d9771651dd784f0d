"""`streamsvm predict` on tables: what it says of a column of labels that nobody named."""

import numpy as np
import pytest

from service.cli import main
from service.models.exports import MODEL_FORMATS
from storage.model_file import Model


@pytest.fixture
def model(tmp_path):
    """A file with a model of two features that says 1 where the first is the larger."""
    path = tmp_path / "a.npz"
    path.write_bytes(b"".join(MODEL_FORMATS["npz"].write(Model(np.array([1.0, -1.0]), (1.0, -1.0), 0))))
    return path


def predict(model, table, *options):
    file = model.with_name("rows.csv")
    file.write_text(table)
    return main(["predict", str(model), str(file), *options])


def test_labels_that_are_text_lead_to_the_option_that_names_their_column(model, capsys):
    table = "a,b,kind\n2,1,cat\n1,2,dog\n"
    assert predict(model, table) == 3
    said = capsys.readouterr().err
    assert "column 3 (kind): field 'cat' is not a number [not_numeric]" in said
    assert "if it is the column of labels, name it by --label-column" in said
    assert predict(model, table, "--label-column", "kind") == 0
    assert capsys.readouterr().out == "1\n-1\n"


def test_labels_that_are_taken_for_a_feature_are_noticed(model, capsys):
    table = "y,a,b\n1,2,1\n-1,1,2\n"
    assert predict(model, table) == 0
    assert capsys.readouterr().err.splitlines()[:2] == [
        "values of features that the model does not have, passed over: 2",
        "  every column was taken for a feature: name that of the labels by --label-column",
    ]
    assert predict(model, table, "--label-column", "y") == 0
    assert capsys.readouterr().err == "accuracy 100.0000% (2/2)\n"


def test_a_wider_table_whose_labels_are_named_is_counted_alone(model, capsys):
    assert predict(model, "y,a,b,c\n1,2,1,7\n", "--label-column", "y") == 0
    said = capsys.readouterr().err
    assert (
        said.startswith("values of features that the model does not have, passed over: 1")
        and "--label-column" not in said
    )
