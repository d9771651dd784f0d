"""read_model returns the model that was written, or raises an error."""

import json
import resource
import shutil

import numpy as np
import pytest

from streamsvm.storage.errors import CorruptData, UnknownVersion
from streamsvm.storage.models.model_file import Model, read_model, write_model
from streamsvm.trainer.problem.losses import KINDS
from tests.machines import random_machine
from tests.storage.damage import bit_flips, scrambled, truncations

MODELS = [
    Model(np.array([0.1, -1e300, 5e-324]), (1.0, -1.0), 1, None, 0.0, {"solver": "streamsvm", "C": 0.1}),
    Model(np.zeros(0), (2.0, 1.5), 0, 1.0, -0.25),
    Model(np.array([[0.1, -1e300], [5e-324, 0.0], [1.0, 2.0]]), (3.0, -1.5, 2.0), 1, 2.0, (0.1, 0.0, -1e9)),
    Model(np.ones((3, 1)), ("a", "b", "ü\n"), 1, sigmoid=((-1.0, 0.1), (-2.0, 1e-300), (0.0, 0.0))),
    Model(np.ones(1), ("ham", "spam"), 1, 1.0, 0.5, {"loss": "hinge"}, ((-1.5, 0.25),)),
    random_machine(3, 4),
    random_machine(2, 3, labels=("a", "b", "c"), base=0),
]
VERSIONS = [1, 1, 2, 2, 2, 3, 3]


@pytest.mark.parametrize("model", MODELS)
def test_round_trip_is_exact(tmp_path, model):
    write_model(tmp_path / "m", model)
    loaded = read_model(tmp_path / "m")
    assert loaded.w.tobytes() == model.w.tobytes() and loaded.w.shape == model.w.shape
    for name in ("labels", "index_base", "bias", "w_bias", "about", "sigmoid"):
        assert getattr(loaded, name) == getattr(model, name), name
    np.testing.assert_array_equal(loaded.intercept, model.intercept)
    assert (loaded.vectors is None) == (model.vectors is None)
    for name in () if model.vectors is None else ("gamma", "width", "indptr", "indices", "values"):
        assert np.array_equal(getattr(loaded.vectors, name), getattr(model.vectors, name)), name
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_intercept_is_the_weight_of_the_constant_times_its_value():
    assert Model(np.zeros(1), (1.0, -1.0), 1, bias=2.0, w_bias=-0.25).intercept == -0.5
    assert Model(np.zeros(1), (1.0, -1.0), 1).intercept == 0.0


def test_each_of_several_classes_has_an_intercept():
    w = np.zeros((3, 2))
    assert Model(w, (1.0, 2.0, 3.0), 1, 2.0, (0.5, 0.0, -1.0)).intercept.tolist() == [1.0, 0.0, -2.0]
    assert Model(w, (1.0, 2.0, 3.0), 1).intercept.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("model", "version"), list(zip(MODELS, VERSIONS, strict=True)))
def test_an_older_program_reads_what_it_can_understand(tmp_path, model, version):
    write_model(tmp_path / "m", model)
    document = json.loads((tmp_path / "m" / "model.json").read_bytes())
    assert document["version"] == version
    assert ("sigmoid" in document["content"]) == (version > 1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("copies", [lambda data: list(truncations(data))[::7], lambda data: scrambled(data, 200)])
def test_damaged_vectors_are_noticed(tmp_path, copies):
    write_model(tmp_path / "m", MODELS[5])
    file = tmp_path / "m" / "vectors.npz"
    for damaged in copies(file.read_bytes()):
        file.write_bytes(damaged)
        with pytest.raises(CorruptData):
            read_model(tmp_path / "m")


def test_logistic_regression_needs_no_fitted_sigmoid_and_others_do():
    logistic, w = {"loss": "logistic"}, np.zeros((3, 2))
    having = [loss for loss in KINDS if Model(w[0], (1.0, 2.0), 1, about={"loss": loss}).probability]
    assert having == [loss for loss, kind in KINDS.items() if kind.has_probabilities]
    assert Model(w, (1.0, 2.0, 3.0), 1, about=logistic).probability == ((-1.0, 0.0),) * 3
    assert Model(w[0], (1.0, 2.0), 1, about=logistic).probability == ((-1.0, 0.0),)
    assert Model(w[0], (1.0, 2.0), 1, about=logistic, sigmoid=((-3.0, 1.0),)).probability == ((-3.0, 1.0),)


@pytest.fixture(params=[MODELS[0], MODELS[3]], ids=["two classes", "three"])
def written(request, tmp_path):
    model = request.param
    write_model(tmp_path / "m", model)
    return tmp_path / "m", model


# numpy may warn about a damaged header before it raises an error.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["model.json", "w.npy"])
@pytest.mark.parametrize("copies", [truncations, bit_flips])
def test_damage_is_noticed(written, name, copies):
    directory, model = written
    original = (directory / name).read_bytes()
    errors, wrong = {}, []
    for damaged in copies(original):
        (directory / name).write_bytes(damaged)
        try:
            loaded = read_model(directory)
        except (CorruptData, UnknownVersion):
            continue
        except Exception as error:
            errors[type(error).__name__] = str(error)
            continue
        same_w = loaded.w.dtype == model.w.dtype and loaded.w.shape == model.w.shape and np.all(loaded.w == model.w)
        same = all(getattr(loaded, name) == getattr(model, name) for name in ("about", "labels", "sigmoid"))
        if not (same_w and same):
            wrong.append(loaded)
    assert not wrong
    assert not errors


def test_missing_weights_are_noticed(written):
    directory, _ = written
    (directory / "w.npy").unlink()
    with pytest.raises(CorruptData):
        read_model(directory)


def test_weights_of_another_model_are_noticed(written, tmp_path):
    directory, model = written
    write_model(tmp_path / "n", Model(model.w + 1, model.labels, 1))
    shutil.copy(tmp_path / "n" / "w.npy", directory)
    with pytest.raises(CorruptData):
        read_model(directory)


def test_weights_for_which_the_disk_has_no_room_leave_no_model(tmp_path):
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The disk has room for everything but the weights.
    resource.setrlimit(resource.RLIMIT_FSIZE, (900, unlimited[1]))
    try:
        with pytest.raises(OSError):
            write_model(tmp_path / "m", Model(np.ones(100), (1.0, -1.0), 1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert list(tmp_path.iterdir()) == []


def test_files_of_a_killed_writer_are_replaced(tmp_path):
    (tmp_path / ".m.staged").mkdir()
    (tmp_path / ".m.staged" / "w.npy").write_bytes(b"half")
    write_model(tmp_path / "m", MODELS[0])
    assert read_model(tmp_path / "m").w.tobytes() == MODELS[0].w.tobytes()
