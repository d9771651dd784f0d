"""Values beyond what numbers can be end a job with a code; what cannot be shown is never published."""

import numpy as np
import pytest

from streamsvm.storage.errors import ValuesOverflow
from streamsvm.storage.models.support_vectors import KernelState, SupportVectors
from streamsvm.storage.run.state import create_state
from streamsvm.trainer.shared_state import SharedState
from tests.contracts.problems import make_dataset, random_problem
from tests.training import train


@pytest.mark.parametrize("solver", ["bsca", "bsgd"])
@pytest.mark.parametrize(("largest", "is_refused"), [(3e38, True), (1e20, True), (1e18, False)])
def test_distances_that_products_cannot_say_are_refused(tmp_path, solver, largest, is_refused):
    """At 1e20 products are infinite, though squared norms are not: rows far apart would stand in one place."""
    X, y = random_problem(60, 5)
    X = X.toarray() if hasattr(X, "toarray") else X
    dataset = make_dataset(tmp_path / "data", X * (largest / np.abs(X).max()), y)
    settings = {"kernel": "rbf", "solver": solver, "gamma": 1e-30, "max_passes": 2, "budget": 4}
    if is_refused:
        with pytest.raises(ValuesOverflow) as raised:
            train(tmp_path / "run", dataset, 1 << 20, **settings)
        assert raised.value.hint
    else:
        found = train(tmp_path / "run", dataset, 1 << 20, **settings)
        assert np.isfinite(found.result["certificate"]["primal_objective"])


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
def test_weights_that_are_none_are_not_published(tmp_path, width, value):
    (tmp_path / "run").mkdir()
    state = create_state(tmp_path / "run", 3, 4, lanes=width)
    link = SharedState(state, deferred=False, n_figures=width)
    w = np.zeros(state.w.shape)
    link.publish(w)
    link._width = 4
    w[2] = value
    with pytest.raises(ValuesOverflow):
        link.publish(w)
    assert not state.w.any()


def test_a_machine_that_is_none_is_not_published(tmp_path):
    (tmp_path / "run").mkdir()
    link = SharedState(create_state(tmp_path / "run", 3, 4), deferred=False)
    vectors = SupportVectors(1.0, 4, np.array([0, 1]), np.zeros(1, np.int32), np.ones(1, np.float32))
    with pytest.raises(ValuesOverflow):
        link.publish_machine(KernelState(vectors, np.array([np.nan]), 0, 0.0))
    link.publish_machine(KernelState(vectors, np.array([1.0]), 0, 0.0))


def test_rounds_within_a_block_end_with_the_time_of_the_job(tmp_path):
    """A block may be gone over a million times: its time does not wait for that."""
    dataset = make_dataset(tmp_path / "data", *random_problem(60))
    settings = {"solver": "bm", "inner_rounds": 1_000_000, "tolerance": None, "C": 1e6, "pace": "adaptive"}
    found = train(tmp_path / "run", dataset, 1 << 20, max_seconds=1e-3, **settings)
    assert found.result["stop_reason"] == "max_seconds"
    assert found.passes[-1]["updates"] < 60 * 10_000
