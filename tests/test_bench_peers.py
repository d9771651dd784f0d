"""What peers print is understood, and a peer's run from start to end."""

import json
import sys

import numpy as np
import pytest

from tests.bench import reading
from tests.bench.liblinear_speed import HUGE_EPS, Run, eps_of_fewest_sweeps, sweep_seconds, sweeps_of
from tests.bench.peers import PEERS
from tests.bench.peers.measure import collect, measure
from tests.bench.peers.ocas import read_trials
from tests.bench.prepared import prepare_generated
from tests.reference import dcd

VOWPAL_MODEL = """Version 9.11.9
Min label:-1
options: --noconstant
Checksum: 1717712054
:1
l1_state 0
l2_state 0.5
1:-2 285 1
4:0.25
"""

OCAS_OUTPUT = """   0: tim=0.000532, Q_P=32561.000000, Q_D=0.000000, Q_P-Q_D=32561.000000, 1-Q_D/Q_P=1.000000
  49: tim=0.147972, Q_P=11438.867004, Q_D=11326.831815, Q_P-Q_D=112.035188, nza=  32, err=15.03%, qpf=1
Stopping condition: 1-Q_D/Q_P <= TolRel(=0.010000) satisfied.
   load_time      : 0.045460[s]
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Some hundred rows."""
    directory = tmp_path_factory.mktemp("bench") / "data"
    return prepare_generated(directory, 200_000, features=3000, row_length=30.0)


def test_vowpal_wabbits_weights_are_scaled():
    vowpal = pytest.importorskip("tests.bench.peers.vowpal")
    assert vowpal.read_weights(VOWPAL_MODEL.splitlines(), 5).tolist() == [-1.0, 0.0, 0.0, 0.125, 0.0]


def test_ocas_prints_its_curve():
    trials = list(read_trials(OCAS_OUTPUT.splitlines()))
    assert [(trial.seconds, trial.w) for trial in trials] == [(0.000532, 32561.0), (0.147972, 11438.867004)]


def test_a_peer_that_cannot_run_says_why():
    assert collect([json.dumps({"cannot_run": "not installed"})]).cannot_run == "not installed"


def test_collected_trials():
    trials = [{"setting": f"-e {k}", "seconds": k, "objective": 9.0 - k, "peak_bytes": 100 * k} for k in (2, 1)]
    found = collect(map(json.dumps, [{"loaded_bytes": 7}, *trials]))
    assert (found.loaded_bytes, found.peak_bytes) == (7, 200)
    assert found.seconds_of("-e 1") == 1
    assert found.seconds_of("-e 3") is None


@pytest.mark.parametrize("name", [name for name in PEERS if name != "OCAS"])
def test_a_peer_in_its_own_process(name, data):
    if name == "Vowpal Wabbit":
        pytest.importorskip("vowpalwabbit")
    X, y = data.load()
    optimum = dcd.dcd(X.astype(float), y, 1.0, tol=1e-6).primal
    at_zero = float(data.n_rows)
    found = measure(name, data, 1.0, enough=0.9 * at_zero)
    assert found.cannot_run is None
    assert found.peak_bytes > 10**7
    objectives = [point.objective for point in found.points]
    assert all(objective >= optimum * (1 - 1e-6) for objective in objectives)
    assert min(objectives) <= 0.9 * at_zero


def test_a_program_that_is_missing(data, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert measure("OCAS", data, 1.0, enough=0.0).cannot_run == "cannot be run: no program svmocas"


FAKE_LIBLINEAR = """#!{python}
import sys, time
with open(sys.argv[-2]):
    time.sleep(0.1)
time.sleep(0.1)
"""


def test_liblinear_reads_until_it_closes_its_input(data, tmp_path, monkeypatch):
    program = tmp_path / reading.PROGRAM
    program.write_text(FAKE_LIBLINEAR.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = reading.read(data, 1.0)
    assert 0 < found.seconds < found.whole_seconds


def test_without_the_program_the_beginning_of_the_text_is_scaled(data, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(reading, "PREFIX_BYTES", data.text_bytes // 10)
    found = reading.read(data, 1.0)
    assert found.seconds > 0
    assert found.whole_seconds is None
    assert sorted(path.name for path in data.directory.glob("prefix-*")) == []


def test_number_of_sweeps_is_read():
    assert sweeps_of("..*\noptimization finished, #iter = 17\nObjective value = -3\n") == 17
    with pytest.raises(ValueError, match="did not print"):
        sweeps_of("nothing")


@pytest.mark.parametrize(("threshold", "fewest"), [(1.7, 2), (0.4, 2), (23.0, 2), (1.7, 3)])
def test_the_fewest_sweeps_are_found(threshold, fewest):
    """One sweep above the threshold, at least `fewest` just below it, more further down."""

    def sweeps(eps: float) -> int:
        return 1 if eps >= threshold else fewest + int(4 * np.log(threshold / eps))

    found = eps_of_fewest_sweeps(sweeps)
    assert found < HUGE_EPS
    assert sweeps(found) == fewest


def test_a_sweep_is_the_difference():
    assert sweep_seconds(Run(2.0, 1), Run(5.0, 3)) == 1.5


def test_the_objective_in_pieces_is_the_objective(data):
    X, y = data.load()
    w = np.random.default_rng(0).standard_normal(data.n_features)
    whole = dcd.primal_objective(X.astype(float), y, w, 2.0)
    assert data.primal_objective(w, 2.0) == pytest.approx(whole, rel=1e-12)
    pieces = list(data.chunks(rows=7))
    assert sum(len(labels) for _, labels in pieces) == data.n_rows
    assert (pieces[3][0] != X[21:28]).nnz == 0
    assert np.array_equal(pieces[3][1], y[21:28])
