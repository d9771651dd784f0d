"""Files with features numbered from 0 or from 1, predicted with a model from each of its formats."""

import io
from dataclasses import replace

import numpy as np
import pytest
from liblinear import liblinearutil
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import InputOptions
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.models.model_file import Model
from tests.machines import random_machine

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(30, 5))
W = np.array([3.0, -1.0, 0.5, -2.0, 1.0])


def linear(base: int) -> Model:
    return Model(W, (1.0, -1.0), base, about={"loss": "hinge"})


def text(rows, base):
    """Text as scikit-learn writes it."""
    out = io.BytesIO()
    dump_svmlight_file(sparse.csr_matrix(rows), np.ones(len(rows)), out, zero_based=base == 0)
    return out.getvalue()


def by_way_of(name: str, model: Model) -> Predictor:
    return Predictor(MODEL_FORMATS[name].read(io.BytesIO(b"".join(MODEL_FORMATS[name].write(model)))))


def values(predictor, data, base="auto"):
    found = predictor.predict_text([data], options=InputOptions("libsvm", index_base=base))
    return np.concatenate([each.decision_values for each in found])


@pytest.mark.parametrize("name", ["liblinear", "npz", "onnx"])
@pytest.mark.parametrize("base", [0, 1])
def test_a_file_is_read_as_the_one_that_was_trained_on(name, base):
    """The numbering is found even if no row has the first feature."""
    predictor = by_way_of(name, linear(base))
    rest = ROWS * (np.arange(5) > 0)
    for rows in (ROWS, rest):
        np.testing.assert_allclose(values(predictor, text(rows, base)), rows.astype(np.float32) @ W, rtol=1e-5)


@pytest.mark.parametrize("model", [linear(0), linear(1), random_machine(5, 4, (1.0, -1.0))], ids=["0", "1", "kernel"])
@pytest.mark.parametrize("base", [0, 1])
def test_a_file_that_counts_otherwise_is_read_as_it_is_said_to_count(model, base):
    predictor = Predictor(model)
    np.testing.assert_allclose(
        values(predictor, text(ROWS, base), base), predictor.decision_values(ROWS.astype(np.float32)), rtol=1e-5
    )


@pytest.mark.parametrize(("model", "base", "code"), [(1, 0, "index_zero"), (0, 1, "index_base_mismatch")])
def test_a_file_that_counts_otherwise_is_refused_with_a_hint_that_helps(model, base, code):
    predictor = Predictor(linear(model))
    with pytest.raises(InputError) as caught:
        values(predictor, text(ROWS, base))
    assert caught.value.code == code and f"index_base={base}" in caught.value.hint
    values(predictor, text(ROWS, base), base)


@pytest.mark.parametrize("name", ["liblinear", "npz", "onnx"])
def test_a_model_of_a_matrix_reads_files_that_count_from_0_or_1(name):
    """A matrix has no numbers: a file that does not show its base is refused, in whatever piece the rows come."""
    model = replace(linear(0), about={"loss": "hinge", "numbered": False})
    predictor = by_way_of(name, model)
    for base in (0, 1):
        np.testing.assert_allclose(values(predictor, text(ROWS, base)), ROWS.astype(np.float32) @ W, rtol=1e-5)
        found = values(predictor, text(ROWS * (np.arange(5) % 4 > 0), base), base)
        np.testing.assert_allclose(found, ROWS.astype(np.float32)[:, 1:4] @ W[1:4], rtol=1e-5)
    for lines, code in ((b"1\n1 2:1\n", "index_base_mismatch"), (b"1 5:1\n" * 900_000 + b"1 0:1\n", "index_zero")):
        with pytest.raises(InputError) as caught:
            values(predictor, lines)
        assert caught.value.code == code and "index_base=0" in caught.value.hint


def test_features_beyond_the_last_are_passed_over_as_before():
    predictor = Predictor(linear(0))
    assert values(predictor, b"1 0:1 5:9\n1 5:9\n1 2147483647:1\n").tolist() == [3.0, 0.0, 0.0]
    assert values(predictor, b"1 6:9\n").tolist() == [0.0]
    assert values(Predictor(linear(1)), b"1 0:1 2147483647:1\n", 0).tolist() == [3.0]


def test_liblinear_reads_the_number_of_features_as_it_is(tmp_path):
    """C reads a number with a leading zero as the same number."""
    matrix = replace(linear(0), about={"loss": "hinge", "numbered": False})
    texts = [b"".join(MODEL_FORMATS["liblinear"].write(model)) for model in (linear(1), linear(0), matrix)]
    assert [each.split(b"\n")[3] for each in texts] == [b"nr_feature 5", b"nr_feature 05", b"nr_feature 005"]
    for each in texts:
        path = tmp_path / "a.model"
        path.write_bytes(each)
        assert liblinearutil.load_model(str(path)).nr_feature == 5
