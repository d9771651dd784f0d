"""All classes in one problem, that of Crammer and Singer: its optimum in all ways the engine runs."""

import numpy as np
import pytest

from streamsvm.reader.certificate.kept_values import read_held_out
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.trainer.problem.losses import crammer_singer
from streamsvm.trainer.problem.tasks import joint_width
from tests.contracts.problems import make_dataset
from tests.reference import data
from tests.reference.liblinear import train_crammer_singer
from tests.trainer.test_lanes import SMALL_CACHE, WAYS, classes, folds_in, stored
from tests.trainer.test_sample_weights import weighted
from tests.training import train

JOINT = {"multiclass": "crammer_singer"}
SOLVED = {**JOINT, "tolerance": None, "relative_gap": 1e-7, "max_passes": 50_000}
EVERY_WAY = {
    **WAYS,
    "on two threads": {"cache_bytes": SMALL_CACHE, "on_disk": True, "pace": "adaptive", "threads": 2},
    "two loops on threads": {"cache_bytes": SMALL_CACHE, "pace": "adaptive", "threads": 4, "spill": False},
}


def primal_and_dual(X, labels, alpha, w, C, weight=None):
    """In plain numpy, and |w - v| / |w|; C of each class. alpha is inside its bounds."""
    known, own = np.unique(labels, return_inverse=True)
    alpha, w = alpha[:, : len(known)], w[:, : len(known)]
    each = np.broadcast_to(C, len(known))[own] * (1.0 if weight is None else weight)
    assert np.all(alpha <= np.where(own[:, None] == np.arange(len(known)), each[:, None], 0.0))
    assert np.all(np.abs(alpha.sum(axis=1)) <= 1e-12 * np.maximum(each, 1e-300))
    v = X.T @ alpha
    P = np.vdot(w, w) / 2 + crammer_singer.losses(own, each, X @ w)
    return P, crammer_singer.dual(own, alpha) - np.vdot(v, v) / 2, np.linalg.norm(w - v) / np.linalg.norm(w)


def check(found, X, labels, C=1.0, weight=None, gap=1e-7):
    """It is optimal, by the alpha and w there are, and says so; what lies beyond the classes is 0."""
    n_classes = len(np.unique(labels))
    P, D, w_error = primal_and_dual(X, labels, found.alpha, found.w, C, weight)
    assert w_error <= 1e-9
    assert gap * P * (1 + 1e-6) >= P - D >= -1e-12 * P
    certificate = found.result["certificate"]
    assert certificate["primal_objective"] == pytest.approx(P, rel=1e-9)
    assert certificate["dual_objective"] == pytest.approx(D, rel=1e-9)
    assert certificate["w_error"] <= 1e-9
    assert found.result["converged"]
    assert not found.alpha[:, n_classes:].any() and not found.w[:, n_classes:].any()
    bounds = [(each["dual_objective"], each["primal_bound"]) for each in found.passes]
    assert all(dual <= primal * (1 + 1e-12) for dual, primal in bounds)
    return P


@pytest.mark.parametrize(("way", "n_classes"), [*((way, 3) for way in EVERY_WAY), ("two loops", 11), ("on disk", 20)])
def test_the_optimum_is_liblinears(tmp_path, n_classes, way):
    X, labels = classes(n_classes)
    dataset = make_dataset(tmp_path / "data", X, labels)
    settings = {**EVERY_WAY[way], **SOLVED}
    found = train(tmp_path / "run", dataset, settings.pop("cache_bytes"), **settings)
    X, labels, _ = stored(dataset)
    P = check(found, X, labels)
    _, own = np.unique(labels, return_inverse=True)
    theirs = train_crammer_singer(X, own, 1.0, eps=1e-5)
    best = np.vdot(theirs, theirs) / 2 + crammer_singer.losses(own, np.ones(len(own)), X @ theirs)
    assert pytest.approx(best, rel=1e-6) == P
    assert found.alpha.shape[1] == joint_width(n_classes)


@pytest.mark.parametrize(
    ("way", "name", "n_rows", "C", "cache_bytes"),
    [
        ("at any pace", "dna", 2000, 0.01, 1 << 18),
        ("at any pace", "letter", 1500, 0.03, 1 << 17),
        ("at any pace", "mnist.train", 1500, 0.01, 1 << 19),
        ("at any pace", "news20", 1500, 1e-5, 1 << 19),
    ],
)
def test_of_real_data_too(tmp_path, way, name, n_rows, C, cache_bytes):
    data.require(name)
    X, labels = data.load(name)
    some = np.random.default_rng(0).permutation(len(labels))[:n_rows]
    dataset = make_dataset(tmp_path / "data", X[some], labels[some])
    assert Dataset(dataset).manifest.decoded_bytes > cache_bytes
    settings = {**EVERY_WAY[way], **SOLVED, "C": C, "cache_bytes": cache_bytes}
    found = train(tmp_path / "run", dataset, settings.pop("cache_bytes"), **settings)
    X, labels, _ = stored(dataset)
    P = check(found, X, labels, C)
    _, own = np.unique(labels, return_inverse=True)
    theirs = train_crammer_singer(X, own, C, eps=1e-7)
    best = np.vdot(theirs, theirs) / 2 + crammer_singer.losses(own, np.full(len(own), C), X @ theirs)
    assert pytest.approx(best, rel=1e-6) == P


def test_two_classes(tmp_path):
    X, labels = classes(2)
    dataset = make_dataset(tmp_path / "data", X, labels)
    found = train(tmp_path / "run", dataset, SMALL_CACHE, **SOLVED)
    X, labels, _ = stored(dataset)
    check(found, X, -labels)  # the larger label comes first
    assert found.w[:, 0] == pytest.approx(-found.w[:, 1], abs=1e-12)


@pytest.mark.parametrize("way", ["two loops", "on disk", "in the cache", "on threads"])
def test_weights_of_rows_and_classes(tmp_path, way):
    X, labels = classes(4)
    weight = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.5], len(labels))
    dataset = weighted(tmp_path / "data", X, labels, weight)
    settings = {**EVERY_WAY[way], **SOLVED, "C": 0.5, "class_weight": {"1": 3.0, "2": 0.2}}
    found = train(tmp_path / "run", dataset, settings.pop("cache_bytes"), **settings)
    X, labels, weight = stored(dataset)
    check(found, X, labels, 0.5 * np.array([1.0, 3.0, 0.2, 1.0]), weight)
    assert not found.alpha[weight == 0].any()


@pytest.mark.parametrize("way", ["two loops", "on disk", "at any pace"])
def test_a_fold_is_left_out(tmp_path, way):
    X, labels = classes(3)
    dataset = make_dataset(tmp_path / "data", X, labels)
    settings = {**EVERY_WAY[way], **SOLVED, "folds": 3, "seed": 7, "number": 1}
    found = train(tmp_path / "run", dataset, settings.pop("cache_bytes"), **settings)
    X, labels, _ = stored(dataset)
    fold = folds_in(tmp_path / "run", len(labels), 3, 7)
    check(found, X, labels, weight=(fold != 1).astype(float))
    for place, label in enumerate(np.unique(labels)):
        ids, target, values = read_held_out(tmp_path / "run", len(labels), place)
        assert np.array_equal(ids, np.flatnonzero(fold == 1))
        assert np.array_equal(target > 0, labels[ids] == label)
        assert values == pytest.approx(X[ids] @ found.w[:, place])


def test_rows_that_rest_do_not_enter_the_cache(tmp_path):
    X, labels = classes(5, n_rows=1500)
    dataset = make_dataset(tmp_path / "data", X, labels)
    settings = {**JOINT, "tolerance": 1e-3, "max_passes": 50_000}
    screened = train(tmp_path / "screened", dataset, SMALL_CACHE, **settings)
    every = train(tmp_path / "every", dataset, SMALL_CACHE, screening=None, **settings)
    assert screened.passes[-1]["rows_screened"] > 0 == every.passes[-1]["rows_screened"]
    one, other = (each.result["certificate"]["primal_objective"] for each in (screened, every))
    assert one == pytest.approx(other, rel=1e-3)
    assert screened.result["certificate"]["gap"] <= 1e-3
