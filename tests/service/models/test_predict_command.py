"""`streamsvm predict` with models of several classes, of texts and with probabilities."""

import argparse

import numpy as np
import pytest

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.tables.matching import named_numbers
from streamsvm.service.commands.predict import add_arguments, run
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.exports import MODEL_FORMATS, ModelFormatError
from streamsvm.service.models.formats import format_of, formats_for
from streamsvm.storage.models.model_file import Model
from tests.machines import numpys_values, random_machine

TEXT = "2 1:1\n9 2:1\n"


@pytest.fixture
def predict(tmp_path, capsys):
    """A function that runs the command on a model with options; returns its standard output and error."""

    def call(model: Model, name: str, *options: str, rows: str = "rows", text: str = TEXT) -> tuple[list[str], str]:
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        (tmp_path / rows).write_text(text)
        format_ = format_of(name, model.vectors is not None)
        (tmp_path / name).write_bytes(b"".join(MODEL_FORMATS[format_].write(model)))
        assert run(parser.parse_args([str(tmp_path / name), str(tmp_path / rows), *options])) == 0
        captured = capsys.readouterr()
        return captured.out.splitlines(), captured.err

    return call


def test_several_classes_are_judged(predict):
    lines, said = predict(Model(np.array([[1.0, 0.0], [0.5, -1.0], [0.0, 3.0]]), (2.0, 1.0, 5.0), 1), "a.model")
    assert (lines, said) == (["2", "5"], "accuracy 50.0000% (1/2); labels of 1 row are none of the model's: 2, 1, 5\n")


def test_labels_that_the_model_does_not_have_are_told(predict):
    _, said = predict(Model(np.array([1.0, -1.0]), (1.0, -1.0), 1), "a.model")
    assert said == "accuracy 0.0000% (0/2); labels of 2 rows are none of the model's: 1, -1\n"


def test_texts_with_all_their_numbers(predict):
    model = Model(np.array([[1.0, 0.0], [0.5, -1.0], [0.0, 3.0]]), ("x", "y", "z"), 1, about={"loss": "logistic"})
    lines, said = predict(model, "a.npz", "--decision-values", "--probabilities")
    assert said == ""
    values = np.array([[1.0, 0.5, 0.0], [0.0, -1.0, 3.0]])
    shares = 1 / (1 + np.exp(-values))
    expected = np.hstack([values, shares / shares.sum(axis=1, keepdims=True)])
    assert [line.split()[0] for line in lines] == ["x", "z"]
    np.testing.assert_allclose([list(map(float, line.split()[1:])) for line in lines], expected, rtol=1e-12)


def test_a_model_without_probabilities_says_so(predict):
    with pytest.raises(ModelFormatError, match="no probabilities") as error:
        predict(Model(np.ones(2), (1.0, -1.0), 1), "a.npz", "--probabilities")
    assert "train with --probability sigmoid" in error.value.hint


BINARY = Model(np.array([1.0, -1.0]), (1.0, -1.0), 1)


BY_PLACE = "columns were matched by their places, because the model has no names of columns\n"


def test_a_name_that_ends_in_a_format_gets_columns(predict, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = Model(
        np.array([2.0, 1.0]), (1.0, 0.0), 1, about={"input": {**named_numbers(["a", "b"]), "has_names": True}}
    )
    text = "id,a,b,y\nx,1,0,1\ny,0,-1,1\n"
    lines, said = predict(model, "a.npz", "-o", "out.csv", "--keep", "id", "--decision-values", rows="r.csv", text=text)
    assert (tmp_path / "out.csv").read_text() == "id,label,decision_value\nx,1,2.0\ny,0,-1.0\n"
    assert (lines, said) == ([], "2 rows predicted\naccuracy 50.0000% (1/2)\n")
    assert not list(tmp_path.glob(".out*"))
    with pytest.raises(ServiceError, match="probabilities"):
        predict(model, "a.npz", "-o", "out.csv", "--probabilities", rows="r.csv", text=text)
    with pytest.raises(ServiceError, match="format"):
        predict(model, "a.npz", "--keep", "id", rows="r.csv", text=text)


def test_a_wider_table_is_refused(predict):
    hints = {
        "y,a,b,c\n1,2,1,7\n": "give the columns",
        "a,b,kind\n2,1,cat\n": "if one of them has the labels, leave it out",
    }
    for text, hint in hints.items():
        with pytest.raises(InputError, match="the table has 3 columns for features, the model takes 2") as caught:
            predict(BINARY, "a.npz", text=text)
        assert hint in caught.value.hint


def test_a_table_needs_no_model_of_tables(predict):
    assert predict(BINARY, "a.npz", text="2,1\n1,3\n") == (["1", "-1"], "")
    assert predict(BINARY, "a.npz", text="a,b\n2,1\n1,3\n") == (["1", "-1"], BY_PLACE)
    assert predict(BINARY, "a.npz", "--format=tsv", text="2\t1\n1\t3\n") == (["1", "-1"], "")
    labelled = "a,b,kind\n2,1,cat\n1,3,dog\n"
    assert predict(BINARY, "a.npz", "--label-column=kind", text=labelled) == (["1", "-1"], BY_PLACE)
    for options in ([], ["--label-column=y"]):
        lines, said = predict(BINARY, "a.npz", *options, text="a,y,b\n2,1,1\n1,1,3\n")
        assert (lines, said) == (["1", "-1"], f"{BY_PLACE}accuracy 50.0000% (1/2)\n")


NAMED = {"loss": "hinge", "input": {**named_numbers(["a", "b"]), "label_column": "answer"}}
TABLES = [
    ("a,b\n2,1\n1,3\n", ""),
    ("b,a\n1,2\n3,1\n", ""),
    ("b,id,a\n1,x,2\n3,y,1\n", "columns that the model does not have, left out: 1 (id)\n"),
    ("answer,b,a\n{0},1,2\n{1},3,1\n", "accuracy 100.0000% (2/2)\n"),
    ("b,a,class\n1,2,{0}\n3,1,{0}\n", "accuracy 50.0000% (1/2)\n"),
    ("b,a,class\n1,2,\n3,1,{0}\n", ""),
]


@pytest.mark.parametrize(("text", "said"), TABLES)
@pytest.mark.parametrize("labels", [(1.0, -1.0), ("yes", "no")])
def test_columns_are_found_by_name(predict, labels, text, said):
    shown = ["1", "-1"] if labels[0] == 1 else list(labels)
    model = Model(np.array([1.0, -1.0]), labels, 1, about=NAMED)
    assert predict(model, "a.npz", rows="rows.csv", text=text.format(*shown)) == (shown, said)


def test_the_user_says_that_columns_stand_as_in_training(predict):
    model = Model(np.array([1.0, -1.0]), (1.0, -1.0), 1, about=NAMED)
    assert predict(model, "a.npz", "--header=no", rows="rows.csv", text="2,1\n1,3\n") == (["1", "-1"], "")


@pytest.mark.parametrize("name", ["a.model", "a", "a.npz", "a.onnx"])
def test_kernel_machines(predict, name):
    """The first line of a text says whether it is LIBLINEAR's or LIBSVM's."""
    model = random_machine(2, 2, (1.0, -1.0))
    lines, _ = predict(model, name, "--decision-values")
    expected = numpys_values(model, np.eye(2))
    found = np.array([line.split() for line in lines], float)
    np.testing.assert_allclose(found, np.column_stack([np.where(expected > 0, 1, -1), expected]), rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "linear", "kernel"),
    [
        ("a.npz", "npz", "npz"),
        ("b/A.ONNX", "onnx", "onnx"),
        ("a.model", "liblinear", "libsvm"),
        ("a", "liblinear", "libsvm"),
        ("a.txt", "liblinear", "libsvm"),
        ("npz", "liblinear", "libsvm"),
    ],
)
def test_formats_by_the_names_of_files(name, linear, kernel):
    assert (format_of(name), format_of(name, has_kernel=True)) == (linear, kernel)


@pytest.mark.parametrize(
    ("labels", "has_kernel", "text"),
    [
        ([1.0, 2.0], False, ["liblinear"]),
        ([1.0, 2.0], True, ["libsvm"]),
        ([1.0, 2.0, 3.0], False, ["liblinear"]),
        ([1.0, 2.0, 3.0], True, []),
        (["a", "b"], False, []),
        (["a", "b"], True, []),
        ([], False, ["liblinear"]),
        ([0.5, -0.5], False, []),
        ([3e9, 1.0], True, []),
        ([2.0**31 - 1, -(2.0**31)], False, ["liblinear"]),
    ],
)
def test_formats_that_can_say_a_model(labels, has_kernel, text):
    assert formats_for(labels, has_kernel) == [*text, "npz", "onnx"]
    assert formats_for(labels, has_kernel, is_listed=True) == ["npz", *text, "onnx"]
