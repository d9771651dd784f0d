"""The formats of an exported model: exact round trips, damage, and LIBLINEAR's and numpy's own readers."""

import io
import json
import math
import sys
import zipfile

import numpy as np
import onnx
import pytest
from liblinear import liblinearutil

from streamsvm.service.models.exports import MODEL_FORMATS, ModelFormatError, onnx_graph
from streamsvm.service.models.exports.onnx_graph import outputs_of
from streamsvm.service.models.exports.parts import WEIGHTS_A_PIECE
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.rows.csr import Rows
from tests.contracts.problems import random_problem
from tests.machines import PAIRS, random_machine
from tests.reference.liblinear import liblinear_predict
from tests.refusals import refused
from tests.service.models.model_files import export, read, read_damaged, with_head

ODD = [0.0, -0.0, 5e-324, -2.2250738585072014e-308, 1.7976931348623157e308, -1e300, 0.1, 1 / 3, 1e22, 123456789.0, 1e-5]
FORMATS = sorted(MODEL_FORMATS.keys() - {"libsvm"})  # that is of kernel machines


def make(w=ODD, **changes) -> Model:
    fields = {
        "labels": (1.0, -1.0),
        "index_base": 1,
        "bias": 1.0,
        "w_bias": -0.3,
        "about": {"loss": "hinge", "C": 0.1, "certificate": {"gap": 1e-3}, "name": 'é"\\'},
    }
    return Model(np.array(w, np.float64), **{**fields, **changes})


def same(a: Model, b: Model) -> bool:
    """Whether two models are equal to the bit, with nan and the sign of zero."""
    return a.w.tobytes() == b.w.tobytes() and (a.labels, a.bias, a.w_bias) == (b.labels, b.bias, b.w_bias)


def random_weights(count: int) -> np.ndarray:
    """Finite float64 weights, some of them zero."""
    rng = np.random.default_rng(7)
    w = rng.integers(0, 2**64, count, np.uint64).view(np.float64)
    w[~np.isfinite(w) | (rng.random(count) < 0.3)] = 0.0
    return w


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("bias", "base"), [(None, 1), (0.0, 0), (1.0, 1), (0.1, 0)])
@pytest.mark.parametrize("w", [ODD, [], [2.5], random_weights(WEIGHTS_A_PIECE + 1)], ids=["odd", "none", "one", "many"])
def test_a_model_comes_back_to_the_bit(name, bias, base, w):
    model = make(w, bias=bias, w_bias=0.7 if bias is not None else 0.0, labels=(3.0, -7.0), index_base=base)
    found = read(name, export(name, model))
    assert same(found, model) and found.index_base == base
    assert found.w.dtype == np.float64 and found.w.flags.aligned
    assert found.about["loss"] == "hinge"


@pytest.mark.parametrize("name", ["npz", "onnx"])
@pytest.mark.parametrize("base", [0, 1])
def test_what_liblinear_has_no_room_for_comes_back_too(name, base):
    model = make(labels=(0.5, -1e300), index_base=base, bias=-2.0)
    found = read(name, export(name, model))
    assert same(found, model)
    assert found.index_base == base
    assert found.about == model.about


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_a_model_of_regression_has_no_labels(name, loss):
    model = make(labels=(), about={"loss": loss})
    found = read(name, export(name, model))
    assert same(found, model)
    assert found.is_regression
    assert found.about["loss"] == loss


@pytest.mark.parametrize(("solver", "loss"), [(12, "squared_epsilon_insensitive"), (13, "epsilon_insensitive")])
@pytest.mark.parametrize("bias", [-1, 0.5])
def test_liblinear_and_we_predict_the_same_numbers(tmp_path, solver, loss, bias):
    """LIBLINEAR predicts the same with its own model and with ours."""
    X, y = random_problem(60, 20, 5)
    targets = X @ np.arange(20) + y / 10
    theirs = liblinearutil.train(targets, X.astype(float), f"-s {solver} -B {bias} -q")
    liblinearutil.save_model(str(tmp_path / "theirs"), theirs)
    model = read("liblinear", (tmp_path / "theirs").read_bytes())
    assert model.is_regression and model.about["loss"] == loss
    rows = Rows(targets, (X.indptr).astype(np.int64), X.indices + 1, X.data)
    prediction = Predictor(model).predict(rows)
    (tmp_path / "ours").write_bytes(export("liblinear", model))
    for name in ("theirs", "ours"):
        values, _ = liblinear_predict(tmp_path / name, X.astype(float))
        assert prediction.labels == pytest.approx(values, rel=1e-12)
    assert prediction.labels.tolist() == prediction.decision_values.tolist()


@pytest.mark.parametrize(
    ("name", "has_kernel"), [*((name, False) for name in FORMATS), ("libsvm", True), ("npz", True), ("onnx", True)]
)
def test_pieces_are_bounded_and_bytes_repeat(name, has_kernel):
    model = random_machine(3, 3 * WEIGHTS_A_PIECE) if has_kernel else make(random_weights(3 * WEIGHTS_A_PIECE))
    pieces = list(MODEL_FORMATS[name].write(model))
    assert max(map(len, pieces)) < 1 << 20
    assert b"".join(pieces) == export(name, model)


@pytest.mark.parametrize("name", FORMATS)
def test_reads_from_a_file_that_gives_little_at_once(name, monkeypatch):
    monkeypatch.setattr("streamsvm.service.models.exports.liblinear_text._READ_BYTES", 3)
    model = make()
    assert same(read(name, export(name, model)), model)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "changes",
    [
        {"w": [1.0, math.nan]},
        {"w": [math.inf]},
        {"w_bias": math.inf},
        {"labels": (1.0, 1.0)},
        {"labels": (math.nan, 1.0)},
        {"index_base": 2},
    ],
)
def test_refuses_what_no_training_makes(name, changes):
    with refused(ModelFormatError, "bad_model"):
        MODEL_FORMATS[name].write(make(**changes))


@pytest.mark.parametrize("name", FORMATS)
def test_refuses_weights_of_another_kind(name):
    for w in (np.zeros((2, 2, 2)), np.zeros(2, np.float32)):
        with pytest.raises(ModelFormatError):
            MODEL_FORMATS[name].write(Model(w, (1.0, -1.0), 1))


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": (0.5, -1.0)},
        {"labels": (2.0**31, 0.0)},
        {"labels": ("a", "b")},
        {"bias": -1.0},
        {"about": {"loss": "ramp"}},
    ],
)
def test_liblinear_refuses_what_it_cannot_hold(changes):
    with pytest.raises(ModelFormatError) as caught:
        MODEL_FORMATS["liblinear"].write(make(**changes))
    assert "npz" in caught.value.hint


def test_liblinear_text_is_the_documented_one():
    text = export("liblinear", make([0.5, 0.0, -0.1], about={"loss": "squared_hinge"}, labels=(2.0, -1.0)))
    assert text.decode().splitlines() == [
        "solver_type L2R_L2LOSS_SVC_DUAL",
        "nr_class 2",
        "label 2 -1",
        "nr_feature 3",
        "bias 1",
        "w",
        "0.5",
        "0.0",
        "-0.1",
        "-0.3",
    ]
    without = export("liblinear", make([0.5], bias=None, about={})).decode()
    assert without.startswith("solver_type L2R_L1LOSS_SVC_DUAL\n") and without.endswith("bias -1\nw\n0.5\n")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("L2R_L1LOSS_SVC_DUAL", "MCSVM_CS"),
        ("L2R_L1LOSS_SVC_DUAL", "L2R_L2LOSS_SVR"),
        ("nr_class 2", "nr_class 3"),
        ("nr_class 2\n", ""),
        ("label 1 -1", "label 1 1"),
        ("nr_feature 2", "nr_feature 99999999999"),
        ("nr_feature 2", "nr_feature -1"),
        ("nr_feature 2", "nr_feature 1"),
        ("bias 1", "bias nan"),
        ("bias 1", "bias"),
        ("\n0.5\n", "\n1_0\n"),
        ("\n0.5\n", "\n0.5x\n"),
        ("\n0.5\n", "\n" + "9" * 4000),
        ("solver_type", "svm_type"),
    ],
)
def test_liblinear_text_with_a_fault(old, new):
    text = export("liblinear", make([0.5, 2.0])).decode()
    assert old in text
    with pytest.raises(ModelFormatError):
        read("liblinear", text.replace(old, new, 1).encode())


def test_npz_is_read_with_plain_numpy(tmp_path):
    model = make([0.5, -2.0], labels=(7.0, 3.0))
    path = tmp_path / "a.npz"
    path.write_bytes(export("npz", model))
    with np.load(path, allow_pickle=False) as stored:
        assert stored["w"].tobytes() == model.w.tobytes()
        decision = np.array([[1.0, 0.0], [0.0, 1.0]]) @ stored["w"] + stored["intercept"]
        assert np.where(decision > 0, *stored["labels"]).tolist() == [7.0, 3.0]
        assert json.loads(str(stored["about"])) == model.about
    with zipfile.ZipFile(path) as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_reads_an_archive_that_numpy_wrote(tmp_path):
    model = make()
    path = tmp_path / "a.npz"
    arrays = dict(np.load(io.BytesIO(export("npz", model))))
    np.savez(path, **arrays)
    with path.open("rb") as file:
        assert same(MODEL_FORMATS["npz"].read(file), model)


@pytest.mark.parametrize(
    "changes",
    [
        {"w": np.zeros(2, np.float32)},
        {"w": np.zeros((3, 2))},
        {"w": np.array([{}], object)},
        {"labels": np.array([1.0, 2.0, 3.0])},
        {"intercept": np.array(5.0)},
        {"index_base": np.array(7)},
        {"about": np.array("[]")},
        {"about": np.array("{")},
    ],
)
def test_npz_with_another_array(changes):
    stored = io.BytesIO()
    np.savez(stored, **{**np.load(io.BytesIO(export("npz", make()))), **changes})
    with pytest.raises(ModelFormatError):
        read("npz", stored.getvalue())


def test_npz_that_lies_about_its_length_takes_no_memory():
    data = export("npz", make([0.5]))
    with pytest.raises(ModelFormatError):
        read("npz", data.replace(b"(1,), }          ", b"(99999999999,), }", 1))


def test_compressed_npz_is_refused():
    stored = io.BytesIO()
    np.savez_compressed(stored, **np.load(io.BytesIO(export("npz", make()))))
    with pytest.raises(ModelFormatError, match="compressed"):
        read("npz", stored.getvalue())


@pytest.mark.parametrize("name", ["npz", "onnx"])
def test_numbers_that_are_not_finite_become_null(name):
    model = read(name, export(name, make(about={"gap": math.nan, "passes": [math.inf, 1.5]})))
    assert model.about == {"gap": None, "passes": [None, 1.5]}


def test_an_onnx_file_of_before_there_were_labels_is_read():
    """The older graph has decision values only."""
    model = make([0.5, 2.0])
    assert same(read("onnx", onnx_graph._graph(model, []).SerializeToString()), model)


@pytest.mark.parametrize("labels", [(1.0, -1.0), (3.0, 1.0, 2.0), ("b", "a", "c")])
def test_an_onnx_file_of_before_its_columns_ascended_is_read(labels):
    w = np.ones(2) if len(labels) == 2 else np.eye(3, 2)
    model = make(w, labels=labels, bias=None, w_bias=0.0, about={"loss": "logistic"})
    older = outputs_of(model, "decision_values", as_before=True)
    graph = onnx_graph._graph(model, older)
    assert graph != onnx_graph._graph(model) and same(read("onnx", graph.SerializeToString()), model)


def test_another_onnx_graph_is_refused():
    graph = onnx.load_model_from_string(export("onnx", make([0.5, 2.0])))
    graph.graph.node[1].op_type = "Sub"
    with pytest.raises(ModelFormatError, match="graph"):
        read("onnx", graph.SerializeToString())


def test_without_the_package_onnx_the_other_formats_stay(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModelFormatError) as caught:
        export("onnx", make())
    assert "install" in caught.value.hint
    assert export("npz", make())


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "data", [b"", b"\n" * 5000, b"[" * 100_000, b"\xff\xfe\x00", b"w\n", b"PK\x05\x06" + bytes(18)]
)
def test_other_bytes_are_no_model(name, data):
    with pytest.raises(ModelFormatError):
        read(name, data)


MODELS = {
    "two": make(),
    "several": Model(np.arange(9.0).reshape(3, 3) / 8, (3.0, 1.0, 2.0), 1, 1.0, (0.5, -1.0, 0.25), {"loss": "hinge"}),
    "texts": Model(np.ones((3, 1)), ("ham", "späm", 'a,"b'), 1, 1.0, (0.5, -1.0, 0.25), {}, PAIRS),
    "kernel": random_machine(3, 4, sigmoid=PAIRS[:1]),
    "kernel several": random_machine(2, 3, labels=("ham", "späm", 'a,"b'), sigmoid=PAIRS),
}
HEADS = {
    "two": [
        {"format": "other"}, {"version": 3}, {"n_features": 1}, {"labels": None}, {"labels": [1.0]},
        {"labels": [1.0, "2"]}, {"labels": [1.0, True]}, {"labels": [1.0, 10**400]}, {"labels": [1.0, math.nan]},
        {"bias": "1"}, {"w_bias": None}, {"index_base": True}, {"index_base": None}, {"intercept": 5.0}, {"about": []},
    ],
    "texts": [
        {"version": 1}, {"version": 3}, {"labels": ["a", "b"]}, {"labels": ["a", "b", 3]}, {"w_bias": 1.0},
        {"w_bias": [[1.0], [2.0], [3.0]]}, {"intercept": [0.0, 0.0, 5.0]}, {"sigmoid": [[1.0, 2.0]]},
        {"sigmoid": [1.0, 2.0, 3.0]}, {"sigmoid": "x"},
    ],
    "kernel": [
        {"format": "streamsvm-linear"}, {"version": 2}, {"n_features": -1}, {"n_features": 2}, {"n_features": 2**31},
        {"n_features": 4.0}, {"gamma": None}, {"gamma": "0.3"}, {"gamma": [0.3]},
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "changes"), [(kind, changes) for kind, each in HEADS.items() for changes in each])
def test_onnx_with_another_head(kind, changes):
    data = export("onnx", MODELS[kind])
    read("onnx", with_head(data))
    with pytest.raises(ModelFormatError) as caught:
        read("onnx", with_head(data, **changes))
    assert "graph" not in caught.value.message


HELD = [("liblinear", "two"), ("liblinear", "several"), ("libsvm", "kernel")]
HELD += [(name, kind) for name in ("npz", "onnx") for kind in ("two", "several", "kernel several")]


@pytest.mark.parametrize(("name", "kind"), HELD)
def test_every_truncation_is_noticed(name, kind):
    data = export(name, MODELS[kind])
    for length in range(len(data)):
        with pytest.raises(ModelFormatError):
            read(name, data[:length])


@pytest.mark.parametrize(("name", "kind"), HELD)
@pytest.mark.filterwarnings("ignore")  # zipfile and numpy warn of odd names and headers before they raise
def test_damage_raises_one_error_only(name, kind):
    """A file with a flipped byte is read as a valid model or raises ModelFormatError; npz raises for each byte."""
    data = export(name, MODELS[kind])
    for found in read_damaged(name, data, 400):
        assert name != "npz" or export(name, found) == data
        assert np.isfinite(found.w).all()
        Predictor(found)


@pytest.mark.parametrize("name", ["liblinear", "onnx"])
@pytest.mark.parametrize("more", [b"0.5\n", b"0.5", b"x"])
def test_appended_bytes_are_refused_by_the_texts(name, more):
    with pytest.raises(ModelFormatError):
        read(name, export(name, make()) + more)
