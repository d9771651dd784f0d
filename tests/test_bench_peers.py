"""What peers print is understood, and a peer's run from start to end."""

import json

import numpy as np
import pytest

from tests.bench.peers import PEERS
from tests.bench.peers.apart import installed
from tests.bench.peers.arranged import arrange
from tests.bench.peers.measure import collect, measure
from tests.bench.prepared import prepare_generated
from tests.bench.real_data import is_there, rows_of
from tests.bench.usage import Spent
from tests.reference import dcd

# Their libraries are not there for every Python and machine.
OPTIONAL = ("liblinear_multicore", "snapml")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Some hundred rows."""
    directory = tmp_path_factory.mktemp("bench") / "data"
    return prepare_generated(directory, 200_000, features=3000, row_length=30.0)


def test_a_peer_that_cannot_run_says_why():
    assert collect([json.dumps({"cannot_run": "not installed"})]).cannot_run == "not installed"


def test_collected_trials():
    each = {"core_seconds": 0.5}
    trials = [{"setting": f"-e {k}", "seconds": k, "objective": 9.0, "peak_bytes": 100 * k, **each} for k in (2, 1)]
    found = collect(map(json.dumps, [{"loaded_bytes": 7}, *trials]))
    assert (found.loaded_bytes, found.peak_bytes) == (7, 200)
    assert [point.setting for point in found.points] == ["-e 2", "-e 1"]
    assert [point.spent for point in found.points] == [Spent(2, 0.5), Spent(1, 0.5)]


@pytest.mark.parametrize("name", ["LIBLINEAR", "liblinear-multicore, 2 threads", "Snap ML, 1 thread"])
def test_a_peer_in_its_own_process_solves_the_same_problem(name, data):
    """A factor of C, a bias or features in the wrong place would end elsewhere."""
    X, y = data.load()
    optimum = dcd.dcd(X.astype(float), y, 0.5, tol=1e-6).primal
    found = measure(name, data, 0.5, enough=(1 + 1e-3) * optimum)
    if PEERS[name][0] in OPTIONAL and found.cannot_run:
        pytest.skip(found.cannot_run)
    assert found.cannot_run is None
    assert found.peak_bytes > 10**7
    objectives = [point.objective for point in found.points]
    assert all(objective >= optimum * (1 - 1e-6) for objective in objectives)
    assert min(objectives) <= (1 + 1e-3) * optimum
    assert all(point.spent.core_seconds > 0 for point in found.points)


def test_arranged_rows_are_the_rows_and_weights_come_back(data):
    X, y = data.load()
    arranged = arrange(data)
    w = np.random.default_rng(0).standard_normal(data.n_features)
    margins = arranged.y * (arranged.X @ w)
    assert not np.array_equal(arranged.y, y)
    assert sorted(margins) == pytest.approx(sorted(y * (X @ arranged.weights(w))), rel=1e-5, abs=1e-5)
    counts = np.bincount(arranged.X.indices, minlength=data.n_features)
    assert np.all(np.diff(counts) <= 0)
    assert arranged.X.has_sorted_indices


def test_what_cannot_be_installed_apart_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(ImportError, match="streamsvm-no-such-library cannot be installed: "):
        installed("streamsvm-no-such-library", tmp_path)
    (tmp_path / "there").mkdir()
    assert installed("there", tmp_path) == tmp_path / "there"


def test_a_library_that_is_missing(data, tmp_path, monkeypatch):
    (tmp_path / "liblinear.py").write_text("raise ImportError('no liblinear')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    assert measure("LIBLINEAR", data, 1.0, enough=0.0).cannot_run == "cannot be run: no liblinear"


def test_the_objective_in_pieces_is_the_objective(data):
    X, y = data.load()
    w = np.random.default_rng(0).standard_normal(data.n_features)
    whole = dcd.primal_objective(X.astype(float), y, w, 2.0)
    assert data.primal_objective(w, 2.0) == pytest.approx(whole, rel=1e-12)
    pieces = list(data.chunks(rows=7))
    assert sum(len(labels) for _, labels in pieces) == data.n_rows
    assert (pieces[3][0] != X[21:28]).nnz == 0
    assert np.array_equal(pieces[3][1], y[21:28])


@pytest.mark.parametrize(("name", "shape", "positive"), [("skin_nonskin", (245_057, 3), 50_859), ("news20", None, 0)])
def test_real_data_is_of_two_classes(name, shape, positive):
    if not is_there(name):
        pytest.skip(f"{name} is not available")
    X, y = rows_of(name)
    assert set(np.unique(y)) == {-1.0, 1.0}
    assert shape is None or (X.shape, int((y > 0).sum()), X.max()) == (shape, positive, 1.0)
