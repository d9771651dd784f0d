"""The next job on a dataset begins with the rows that the one before has left on disk."""

import numpy as np
import pytest

from streamsvm.storage.errors import CheckpointUnsound
from streamsvm.storage.rows import decoded_row_cache
from streamsvm.storage.run.checkpoint import newest_checkpoint, write_checkpoint
from streamsvm.storage.run.state import open_control
from tests.contracts.problems import make_dataset, random_problem
from tests.contracts.solver import SMALLEST_CACHE, check_certificate, exact
from tests.training import train

SETTINGS = {"on_disk": True, "keeps_rows": True, "pace": "adaptive", "tolerance": None, "relative_gap": 1e-6}


@pytest.fixture(autouse=True)
def sweeps_alone(monkeypatch):
    """Newton steps have a w of their own on the way; here w is to be that of alpha."""
    monkeypatch.setattr("streamsvm.trainer.newton.phase.is_newton_quicker", lambda *_: False)


@pytest.fixture
def dataset(tmp_path):
    return make_dataset(tmp_path / "data", *random_problem(1500, noise=0.1))


def trained(run, dataset, **settings):
    return train(run, dataset, SMALLEST_CACHE, **{**SETTINGS, **settings})


def test_it_needs_no_pass_of_the_reader(tmp_path, dataset):
    first = trained(tmp_path / "first", dataset)
    second = trained(tmp_path / "second", dataset, C=2.0)
    n_rows = len(first.alpha)
    assert first.state.control["rows_streamed"] == n_rows > second.state.control["rows_streamed"]
    for found, C in ((first, 1.0), (second, 2.0)):
        assert found.result["converged"]
        check_certificate(found, exact(dataset, C=C))


def test_rows_of_another_problem_are_read_anew(tmp_path, dataset):
    trained(tmp_path / "first", dataset)
    found = trained(tmp_path / "second", dataset, bias=1.0)
    assert found.state.control["rows_streamed"] == len(found.alpha)
    check_certificate(found, exact(dataset, bias=1.0))


def test_damaged_ones_cost_time_only(tmp_path, dataset):
    trained(tmp_path / "first", dataset)
    path = dataset / decoded_row_cache.FILE
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    found = trained(tmp_path / "second", dataset, relative_gap=1e-4)
    assert found.result["converged"] and found.state.control["rows_streamed"] >= len(found.alpha)
    check_certificate(found, exact(dataset))
    assert not path.exists()


@pytest.mark.parametrize("shift", [0.0, 1e-6])
def test_without_a_pass_a_certificate_makes_sure_of_the_w_of_a_checkpoint(tmp_path, dataset, shift):
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    kept = {"checkpoints": checkpoints, "checkpoint_seconds": 1e-9}
    first = trained(tmp_path / "first", dataset, relative_gap=1e-2, **kept)
    newest = newest_checkpoint(checkpoints)
    arrays = newest.arrays()
    arrays["w"] = arrays["w"] + shift * np.abs(arrays["w"]).max()
    write_checkpoint(newest.path, newest.about, arrays)
    if shift:
        with pytest.raises(CheckpointUnsound):
            trained(tmp_path / "second", dataset, **kept)
        control = open_control(tmp_path / "second")
        assert control["w_unverified"] == 1 and control["certificates_made"] == 0
    else:
        second = trained(tmp_path / "second", dataset, **kept)
        control = second.state.control
        assert second.result["converged"] and control["w_unverified"] == 0 and control["certificates_made"] > 0
    assert control["rows_streamed"] < first.state.control["rows_streamed"] + len(first.alpha)
