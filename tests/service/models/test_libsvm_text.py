"""LIBSVM's text: LIBSVM and StreamSVM agree on every row, with models of either; faults are reported."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from streamsvm.service.models.exports import MODEL_FORMATS, ModelFormatError
from streamsvm.service.models.exports import libsvm_text as libsvm_text_format
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.models.model_file import Model
from tests.contracts.problems import libsvm_text, random_problem
from tests.machines import PAIRS, machine_of, random_machine, random_matrix
from tests.reference.libsvm import has_program, libsvm_predict, program_predict, svm_train
from tests.service.models.model_files import export, read


def predicted(model: Model, text: bytes):
    """Labels and decision values of the rows of a text."""
    parts = list(Predictor(model).predict_text([text]))
    return np.concatenate([part.labels for part in parts]), np.concatenate([part.decision_values for part in parts])


def some_rows(n_features: int) -> sparse.csr_matrix:
    """Rows near the vectors and far away, without features, and with features that no vector has."""
    X = random_matrix(1000, n_features, seed=3)
    far = random_matrix(50, n_features, seed=4) * np.float32(1e3)
    return sparse.vstack([X, far, sparse.csr_matrix((3, n_features))], "csr").astype(np.float32)


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize(("n_features", "intercept"), [(12, 0.25), (30, 0.0)], ids=["known", "unknown"])
def test_libsvm_finds_the_same_values(tmp_path, n_features, intercept, base):
    model = random_machine(60, base=base, bias=1.0, w_bias=intercept)
    (tmp_path / "model").write_bytes(export("libsvm", model))
    X = some_rows(n_features)
    labels, values = libsvm_predict(tmp_path / "model", X, base)
    found = predicted(model, libsvm_text(X, np.ones(X.shape[0]), base))
    np.testing.assert_array_equal(found[0], labels)
    # The text has the shortest digits of a float32, which LIBSVM reads as a float64.
    np.testing.assert_allclose(found[1], values, rtol=1e-5, atol=1e-5)
    assert {3.0, -2.0} == set(labels)


@has_program
def test_svm_predict_shows_the_probabilities(tmp_path):
    """LIBSVM 3.24 computes probabilities of a pair by an iteration that ends early."""
    model, X = random_machine(60, sigmoid=PAIRS[:1]), some_rows(12)
    (tmp_path / "model").write_bytes(export("libsvm", model))
    text = libsvm_text(X, np.ones(X.shape[0]))
    labels, *shares = np.transpose(program_predict(tmp_path / "model", text, "-b", "1"))
    _, values = predicted(model, text)
    expected = Predictor(model).probabilities(values)
    np.testing.assert_allclose(np.transpose(shares), expected, atol=0.01)
    sure = np.abs(expected[:, 0] - 0.5) > 0.01
    np.testing.assert_array_equal(labels[sure], np.where(expected[:, 0] > 0.5, 3.0, -2.0)[sure])


@pytest.mark.parametrize(
    ("options", "labels"), [("-t 2 -g 0.7 -c 3", (1, -1)), ("-t 2 -s 1 -n 0.3", (7, 3)), ("-t 2 -b 1", (-1, 1))]
)
def test_models_of_libsvm_predict_here_as_there(tmp_path, options, labels):
    X, y = random_problem(200, 30)
    y = np.where(y > 0, *labels)
    svm_train(y, X, options, tmp_path / "theirs")
    model = read("libsvm", (tmp_path / "theirs").read_bytes())
    (tmp_path / "ours").write_bytes(export("libsvm", model))
    assert (model.sigmoid is not None) == ("-b 1" in options)
    found = predicted(model, libsvm_text(X, y))
    for name in ("theirs", "ours"):
        expected, values = libsvm_predict(tmp_path / name, X)
        np.testing.assert_array_equal(found[0], expected)
        np.testing.assert_allclose(found[1], values, rtol=1e-5, atol=1e-5)
    again = read("libsvm", export("libsvm", model))
    assert again.w.tobytes() == model.w.tobytes() and export("libsvm", again) == export("libsvm", model)


def test_several_classes_of_libsvm_are_refused(tmp_path):
    X, _ = random_problem(60, 20)
    svm_train(np.arange(60) % 3, X, "-t 2", tmp_path / "theirs")
    with pytest.raises(ModelFormatError, match="more than two classes"):
        read("libsvm", (tmp_path / "theirs").read_bytes())


@pytest.mark.parametrize("options", ["-t 0", "-t 1", "-t 3", "-t 2 -s 2", "-t 2 -s 3", "-t 2 -s 4"])
def test_other_models_of_libsvm_are_refused(tmp_path, options):
    svm_train(random_problem(60, 20)[1], random_problem(60, 20)[0], options, tmp_path / "theirs")
    with pytest.raises(ModelFormatError, match="Gaussian"):
        read("libsvm", (tmp_path / "theirs").read_bytes())


def test_the_text_is_the_documented_one():
    Z = sparse.csr_matrix(np.float32([[-0.5, 0.0, 2.0, 0.0], [0.5, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]))
    model = machine_of(Z, [-1.25, 0.75, 0.5], sigmoid=((-1.5, 0.1),), bias=1.0, w_bias=0.25, gamma=0.5)
    lines = libsvm_text_format.__doc__.splitlines()
    documented = [line[4:].split("   ")[0] for line in lines if line[:4] == "    "]
    assert export("libsvm", model).decode().splitlines() == documented
    assert documented[-3:] == ["0.75 1:0.5 4:0.0", "0.5 2:1.0", "-1.25 1:-0.5 3:2.0"]


@pytest.mark.parametrize("base", [0, 1])
def test_features_that_no_vector_has_are_counted(base):
    Z = sparse.csr_matrix((np.float32([1.0]), [4], [0, 1]), (1, 9))
    found = read("libsvm", export("libsvm", machine_of(Z, [1.0], base=base)))
    assert (found.index_base, found.n_features, found.vectors.indices.tolist()) == (base, 9, [4 + base])


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (Model(np.ones(2), (1.0, -1.0), 1), "liblinear"),
        (random_machine(labels=(1.0, 2.0, 3.0)), "npz or onnx"),
        (random_machine(labels=()), "npz or onnx"),
        (random_machine(labels=("a", "b")), "npz or onnx"),
        (random_machine(labels=(0.5, 1.0)), "npz or onnx"),
        (random_machine(labels=(2.0**31, 1.0)), "npz or onnx"),
    ],
)
def test_what_it_cannot_hold_is_refused(model, what):
    with pytest.raises(ModelFormatError) as caught:
        MODEL_FORMATS["libsvm"].write(model)
    assert what in caught.value.hint


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("c_svc", "epsilon_svr"),
        ("c_svc", "c_svc x"),
        ("kernel_type rbf", "kernel_type linear"),
        ("gamma 0.5\n", ""),
        ("gamma 0.5", "gamma nan"),
        ("gamma 0.5", "gamma -1"),
        ("gamma 0.5", "gamma 1_0"),
        ("nr_class 2", "nr_class 3"),
        ("total_sv 3", "total_sv 99999999999"),
        ("nr_sv 2 1", "nr_sv 2 2"),
        ("rho -0.25", "rho inf"),
        ("rho -0.25", "rho"),
        ("label 1 -1", "label 1 1"),
        ("label 1 -1", "label 1 0.5"),
        ("probA -1.5\n", ""),
        ("probA -1.5", "probA x"),
        ("nr_sv", "strange"),
        ("0.75 1", "0.75x 1"),
        ("0.75 1", "1"),
        ("0.75 1", "nan 1"),
        ("1:0.5", "1:0.5x"),
        ("1:0.5", "1"),
        ("1:0.5", "-1:0.5"),
        ("1:0.5", "1.0:0.5"),
        ("1:0.5", "1:1e39"),
        ("1:0.5", "1:0.5 1:0.5"),
        ("1:0.5", "5:0.5"),
        ("4:0.0", "99999999999:1"),
        ("0.5 2:1.0\n", ""),
        ("0.5 2:1.0\n", "0.5 2:1.0\n0.5 2:1.0\n"),
    ],
)
def test_a_text_with_a_fault(old, new):
    Z = sparse.csr_matrix(np.float32([[-0.5, 0.0, 2.0, 0.0], [0.5, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]))
    model = machine_of(Z, [-1.25, 0.75, 0.5], sigmoid=((-1.5, 0.1),), bias=1.0, w_bias=0.25, gamma=0.5)
    text = export("libsvm", model).decode()
    assert old in text and same(read("libsvm", text.encode()), model)
    with pytest.raises(ModelFormatError):
        read("libsvm", text.replace(old, new, 1).encode())


def same(found: Model, model: Model) -> bool:
    return sorted(found.w) == sorted(model.w) and found.sigmoid == model.sigmoid and found.intercept == model.intercept


def test_spaces_at_the_ends_of_lines_are_those_of_libsvm():
    model = replace(random_machine(), about={})
    text = export("libsvm", model).replace(b"\n", b" \n")
    assert export("libsvm", read("libsvm", text)) == export("libsvm", model)
