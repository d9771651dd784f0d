"""Names of columns in the texts of LIBLINEAR and of LIBSVM: LIBLINEAR and LIBSVM ignore them, and `read` finds them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.matching import named_numbers
from streamsvm.service.models.exports import MODEL_FORMATS, ModelFormatError
from streamsvm.service.models.exports.parts import PIECE_BYTES, WEIGHTS_A_PIECE
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.models.model_file import Model
from tests.machines import random_machine, random_matrix
from tests.reference.liblinear import liblinear_predict
from tests.reference.libsvm import libsvm_predict
from tests.service.models.model_files import export, read

NAMES = ["income", "inf", 'é, "input"\n', "1"]


def several_classes() -> Model:
    return Model(np.arange(12.0).reshape(3, 4) % 5, (3.0, 1.0, 2.0), 1, 1.0, (0.5, 0.0, -1.0))


MODELS = {
    "liblinear": Model(np.array([0.5, -1.0, 0.0, 2.0]), (1.0, -1.0), 1, 1.0, -0.25),
    "liblinear several": several_classes(),
    "liblinear regression": Model(np.array([0.5, -1.0, 0.0, 2.0]), (), 1, about={"loss": "epsilon_insensitive"}),
    "libsvm": random_machine(20, 4, bias=1.0, w_bias=0.25),
}


def named(model: Model, names=NAMES) -> Model:
    return replace(model, about={**model.about, "input": named_numbers(names)})


@pytest.mark.parametrize("name", MODELS)
def test_names_come_back_and_nothing_else_changes(name):
    model = MODELS[name]
    plain, data = export(name, model), export(name, named(model))
    without = data[: data.rindex(b"input ")].replace(b"nr_class 0", b"nr_class ")
    assert without == plain
    found, before = read(name, data), read(name, plain)
    assert found.about == {**before.about, "input": named_numbers(NAMES)}
    assert found.w.tobytes() == before.w.tobytes() and np.array_equal(found.intercept, before.intercept)


@pytest.mark.parametrize("name", MODELS)
def test_the_other_programs_predict_the_same(tmp_path, name):
    X = random_matrix(50, 4, seed=1)
    predict = libsvm_predict if name == "libsvm" else liblinear_predict
    plain, told = tmp_path / "plain", tmp_path / "told"
    plain.write_bytes(export(name, MODELS[name]))
    told.write_bytes(export(name, named(MODELS[name])))
    for a, b in zip(predict(plain, X), predict(told, X), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", MODELS)
def test_a_text_that_is_cut_or_longer_is_refused(name):
    data = export(name, named(MODELS[name]))
    for cut in [*(data[:length] for length in range(len(data))), data + b"1\n", data + b"x", data * 2]:
        with pytest.raises(ModelFormatError):
            read(name, cut)
    with pytest.raises(ModelFormatError):  # nothing announces the line
        read(name, data.replace(b"nr_class 0", b"nr_class "))


@pytest.mark.parametrize("name", MODELS)
def test_a_damaged_line_is_refused(name):
    data = export(name, named(MODELS[name]))
    begin = data.rindex(b"input ")
    for place in range(begin, len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1
        with pytest.raises(ModelFormatError):
            read(name, bytes(damaged))


def test_many_names_and_weights_go_in_pieces_and_come_back():
    names = [f"a long name of a column {number}" for number in range(WEIGHTS_A_PIECE + 1)]
    model = named(Model(np.arange(len(names), dtype=float), (1.0, -1.0), 1), names)
    pieces = list(MODEL_FORMATS["liblinear"].write(model))
    assert max(map(len, pieces)) < 1 << 20 and len(b"".join(pieces)) > 2 * PIECE_BYTES
    found = read("liblinear", b"".join(pieces))
    assert found.w.tolist() == model.w.tolist() and found.about["input"] == model.about["input"]


def test_a_table_in_another_order_is_predicted_by_name():
    found = read("liblinear", export("liblinear", named(MODELS["liblinear"], ["a", "b", "c", "d"])))
    rows = sparse.csr_matrix(np.eye(4)).toarray()[:, ::-1]
    text = "d,c,b,a\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    (prediction,) = Predictor(found).predict_text([text.encode()], options=InputOptions("csv"))
    assert prediction.decision_values.tolist() == [0.25, -1.25, -0.25, 1.75]
