"""`streamsvm predict` on tables with a column of labels that no option names."""

import numpy as np
import pytest

from streamsvm.service.cli import main
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.storage.models.model_file import Model


@pytest.fixture
def model(tmp_path):
    """A file with a model of two features that predicts 1 if the first is the larger."""
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
    assert "the table has 3 columns for features, the model takes 2 [column_count]" in said
    assert "if one of them has the labels, name it: --label-column" in said
    assert predict(model, table, "--label-column", "kind") == 0
    assert capsys.readouterr().out == "1\n-1\n"


@pytest.mark.parametrize("options", [(), ("--label-column", "y")])
def test_labels_in_a_column_with_a_usual_name_are_no_feature(model, capsys, options):
    assert predict(model, "y,a,b\n1,2,1\n-1,1,2\n", *options) == 0
    assert capsys.readouterr().err.splitlines() == [
        "columns were matched by their places, because the model has no names of columns",
        "accuracy 100.0000% (2/2)",
    ]


def test_a_wider_table_whose_labels_are_named_is_refused(model, capsys):
    assert predict(model, "y,a,b,c\n1,2,1,7\n", "--label-column", "y") == 3
    said = capsys.readouterr().err
    assert "the table has 3 columns for features, the model takes 2 [column_count]" in said
    assert "give the columns of training" in said
