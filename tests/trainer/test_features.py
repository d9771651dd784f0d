"""Feature maps on the way to the kernel: the same problem as rows that were mapped before they were read in."""

import numpy as np
import pytest

from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.options import InputOptions
from streamsvm.service.jobs.fields.features import asked_maps
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.features.rows import Features
from streamsvm.trainer.problem.losses import LOSSES
from tests.training import train

N_ROWS, N_FEATURES = 160, 7
MAPS = {
    "scale": ["scale"],
    "scale by deviation": [{"scale": {"by": "deviation"}}],
    "unit": ["unit"],
    "idf": ["idf"],
    "pairs": ["scale", "pairs"],
    "hashed": ["unit", {"pairs": {"bits": 4}}],
    "fourier": [{"fourier": {"dimension": 16, "gamma": 0.5}}],
    "constant first": ["scale", {"bias": {"value": 0.5}}, "pairs", "unit"],
}
SOLVERS = ("streamsvm", "dcd", "bm", "sbm", "avsf", "streamsvm_paper", "cpa", "ocas")


def text(labels, rows: Features, shift: int = 0) -> bytes:
    lines = []
    for row, label in enumerate(labels):
        values = slice(rows.indptr[row], rows.indptr[row + 1])
        pairs = sorted(zip(rows.indices[values].tolist(), rows.values[values].tolist(), strict=True))
        lines.append(" ".join([f"{label:g}", *(f"{index + shift}:{value:.9g}" for index, value in pairs if value)]))
    return ("\n".join(lines) + "\n").encode()


def some_rows(n_rows: int = N_ROWS, seed: int = 0) -> tuple[np.ndarray, Features]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N_FEATURES)) * (rng.random((n_rows, N_FEATURES)) < 0.6) * [1, 2, 0.5, 3, 1, 1, 0.1]
    y = np.where(X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=n_rows) > 0, 1.0, -1.0)
    indptr = np.concatenate(([0], np.cumsum((X != 0).sum(axis=1))))
    return y, Features(indptr, np.nonzero(X)[1].astype(np.int32), X[X != 0].astype(np.float32))


def store(directory, n_rows: int = N_ROWS, base: int = 1):
    """A dataset of features numbered from `base`, its labels and rows as they are in it."""
    y, rows = some_rows(n_rows)
    ingest([text(y, rows, base)], directory / "d", InputOptions(index_base=base))
    return directory, y, rows._replace(indices=rows.indices + base)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return store(tmp_path_factory.mktemp("stored"))


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """More than a small cache holds."""
    return store(tmp_path_factory.mktemp("many"), 700)


def expanded(stored, name: str, features: list, tmp_path):
    """The same rows, mapped beforehand; features from 1."""
    directory, y, rows = stored
    maps = asked_maps(parse_spec({"dataset": "d", "features": features}), Dataset(directory / "d"))
    made = maps.apply(rows)
    ingest([text(y, made, 1)], tmp_path / name, InputOptions(index_base=1))
    return tmp_path / name


def both(stored, tmp_path, features, **settings):
    """The result of training on stored rows with maps, and on rows mapped beforehand."""
    settings = {"cache_bytes": 1 << 20, "C": 0.5, "tolerance": 1e-9, "max_passes": 3000, **settings}
    mapped = train(tmp_path / "r1", stored[0] / "d", features=features, **settings)
    other = train(tmp_path / "r2", expanded(stored, "expanded", features, tmp_path), **settings)
    return mapped, other


def P(outcome) -> float:
    return outcome.result["certificate"]["primal_objective"]


@pytest.mark.parametrize(("base", "name"), [(number % 2, name) for number, name in enumerate(MAPS)])
def test_mapped_on_the_way_is_as_mapped_beforehand(tmp_path, base, name):
    """Features from 0 without a bias, or from 1 with one."""
    mapped, other = both(store(tmp_path, base=base), tmp_path, MAPS[name], bias=1.0 if base else None)
    assert mapped.result["certificate"]["relative_duality_gap"] < 1e-8
    assert P(mapped) == pytest.approx(P(other), rel=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_linear_solver_trains_on_mapped_rows(stored, tmp_path, solver):
    slow = solver in ("cpa", "ocas", "streamsvm_paper")
    settings = {"solver": solver, "tolerance": 1e-6 if slow else 1e-8, "max_passes": 300 if slow else 3000}
    mapped, other = both(stored, tmp_path, ["unit", "pairs"], **settings)
    assert P(mapped) == pytest.approx(P(other), rel=1e-5 if slow else 1e-9)


def test_pegasos_steps_on_mapped_rows(stored, tmp_path):
    for update in ("row", "block"):
        settings = {"solver": "pegasos", "update": update, "max_passes": 300, "tolerance": None}
        mapped, other = both(stored, tmp_path / update, ["unit", "pairs"], **settings)
        assert P(mapped) == pytest.approx(P(other), rel=0.02)


@pytest.mark.parametrize(
    ("loss", "solver"), [*((loss, "streamsvm") for loss in LOSSES), ("logistic", "dcd"), ("epsilon_insensitive", "dcd")]
)
def test_every_loss(stored, tmp_path, loss, solver):
    mapped, other = both(stored, tmp_path, ["scale", "pairs"], loss=loss, solver=solver, tolerance=1e-8)
    assert P(mapped) == pytest.approx(P(other), rel=1e-7)


def test_a_small_cache_and_rows_on_disk(many, tmp_path):
    for number, settings in enumerate(({"cache_bytes": 108 << 10}, {"cache_bytes": 108 << 10, "on_disk": True})):
        mapped, other = both(many, tmp_path / str(number), ["scale", "pairs"], **settings)
        assert P(mapped) == pytest.approx(P(other), rel=1e-9)


def test_threads_share_rows_that_are_mapped_at_their_visits(stored, tmp_path, monkeypatch):
    monkeypatch.setattr("streamsvm.storage.features.visits._VALUES", 200)
    one = train(tmp_path / "1", stored[0] / "d", 1 << 20, features=["scale", "pairs"], tolerance=1e-9, max_passes=3000)
    four = train(
        tmp_path / "4", stored[0] / "d", 1 << 20, features=["scale", "pairs"], tolerance=1e-9, max_passes=3000,
        threads=4, on_disk=True, pace="adaptive",
    )  # fmt: skip
    assert P(four) == pytest.approx(P(one), rel=1e-8)
    assert four.result["certificate"]["w_error"] < 1e-9


def test_lanes_side_by_side(stored, tmp_path):
    features = ["scale", "pairs"]
    settings = {"features": features, "tolerance": 1e-8, "max_passes": 3000, "cache_bytes": 1 << 20}
    lanes = train(tmp_path / "lanes", stored[0] / "d", C=[0.1, 0.3, 1.0], lanes=True, **settings)
    for number, C in enumerate((0.1, 0.3, 1.0)):
        alone = train(tmp_path / f"{C}", stored[0] / "d", C=C, **settings)
        found = lanes.results[number]["certificate"]["primal_objective"]
        assert found == pytest.approx(P(alone), rel=1e-8)


def test_a_run_goes_on_from_its_checkpoint(many, tmp_path):
    settings = {"features": ["scale", "pairs"], "cache_bytes": 108 << 10, "checkpoints": tmp_path / "kept"}
    (tmp_path / "kept").mkdir()
    train(tmp_path / "1", many[0] / "d", tolerance=None, max_passes=5, **settings)
    later = train(tmp_path / "2", many[0] / "d", tolerance=1e-9, max_passes=3000, **settings)
    whole = train(
        tmp_path / "3", many[0] / "d", 108 << 10, features=["scale", "pairs"], tolerance=1e-9, max_passes=3000
    )
    assert P(later) == pytest.approx(P(whole), rel=1e-9)
