"""Sweeps over the dataset's own blocks: the rows are those that the reader brings, and what fails is told."""

import os

import numpy as np
import pytest

from streamsvm.reader.ingest import shuffle
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.options import InputOptions
from streamsvm.reader.stream.process import Reader
from streamsvm.storage.blocks.dataset import Dataset, block_path
from streamsvm.storage.errors import CheckpointUnsound, DatasetCorrupt
from streamsvm.storage.machine.disk_health import DiskHealth
from streamsvm.storage.machine.resources import PageBudget
from streamsvm.storage.run.checkpoint import newest_checkpoint, write_checkpoint
from streamsvm.storage.run.state import open_control
from streamsvm.trainer.rows import disk
from streamsvm.trainer.rows.disk import StoredRows
from streamsvm.trainer.solvers import read_settings
from tests.contracts.problems import make_dataset, random_problem, weighted_text
from tests.contracts.solver import SMALLEST_CACHE, check_certificate, exact
from tests.disks import pages_held
from tests.training import train, write_run

N_ROWS = 1500
SETTINGS = {"on_disk": True, "pace": "adaptive", "tolerance": None, "relative_gap": 1e-6}
WAYS = {
    "plain": {},
    "bias": {"bias": 1.0},
    "values of C": {"C": [1.0, 2.0], "lanes": True},
    "folds": {"folds": 3, "lanes": True},
    "scaled": {"features": ["scale"], "C": [1.0, 2.0], "lanes": True},
    "regression": {"loss": "epsilon_insensitive"},
    "pairs, made at each visit": {"features": ["pairs"], "C": [1.0, 2.0], "lanes": True},
}


@pytest.fixture(autouse=True)
def sweeps_alone(monkeypatch):
    """Newton steps have a w of their own on the way; here w is to be that of alpha."""
    monkeypatch.setattr("streamsvm.trainer.newton.phase.is_newton_quicker", lambda *_: False)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(shuffle, "FEWEST_WORDS", 1 << 10)


@pytest.fixture
def dataset(tmp_path):
    return make_dataset(tmp_path / "data", *random_problem(N_ROWS, noise=0.1))


@pytest.fixture(params=[False, True], ids=["alike", "weighted"])
def any_dataset(request, tmp_path):
    X, y = random_problem(N_ROWS, noise=0.1)
    if not request.param:
        return make_dataset(tmp_path / "data", X, y)
    ingest([weighted_text(X, y, np.random.default_rng(0).uniform(0.5, 2.0, N_ROWS))], tmp_path / "data", InputOptions())
    return tmp_path / "data"


def trained(run, dataset, **settings):
    return train(run, dataset, SMALLEST_CACHE, **{**SETTINGS, **settings})


def opened(run, **how):
    """The stored rows of the run, on a disk that takes no time unless it is said."""
    how = {"clock": lambda: 0.0, **how}
    return StoredRows.of(read_settings(run), DiskHealth(str(run), **how))


def segments(rows):
    return [rows.segment(number, 1, None) for number in range(len(rows))]


def content(parts):
    """All that a kernel is told of each row, by row id."""
    found = {}
    for part in parts:
        rows = part.with_indices
        for k, row_id in enumerate(rows.row_id.tolist()):
            own = slice(rows.indptr[k], rows.indptr[k + 1])
            optional = (each for each in (rows.target, rows.weight) if len(each))
            columns = [rows.class_code, rows.fold, rows.Qii, *optional]
            pairs = sorted(zip(rows.indices[own].tolist(), rows.values[own].tolist(), strict=True))
            found[row_id] = [float(each[k]) for each in columns], [pair for pair in pairs if pair[1]]
    return found


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_they_are_the_rows_that_the_reader_brings(tmp_path, any_dataset, way):
    run, brought = tmp_path / "run", []
    write_run(run, any_dataset, 1 << 20, **{**SETTINGS, **way})
    reader = Reader(run)
    try:
        reader._passes.visit_all(brought.append, lambda: None)
    finally:
        reader.shutdown()
    rows = opened(run)
    assert len(rows) > 4 and rows.n_rows == N_ROWS
    assert content(segments(rows)) == content(brought)


def test_after_a_first_pass_the_reader_rests(tmp_path, dataset):
    found = trained(tmp_path / "run", dataset)
    assert found.result["converged"] and found.state.control["rows_streamed"] == N_ROWS
    check_certificate(found, exact(dataset))
    assert not list(dataset.glob("rows.*"))


def test_a_block_that_is_damaged_is_named(tmp_path, dataset):
    write_run(tmp_path / "run", dataset, SMALLEST_CACHE, **SETTINGS)
    rows = opened(tmp_path / "run")
    block = Dataset(dataset).manifest.blocks[0]
    path = block_path(dataset, block.number)
    path.write_bytes(bytes(each ^ 1 for each in path.read_bytes()))
    with pytest.raises(DatasetCorrupt, match=f"block {block.number}|wrong checksum"):
        segments(rows)


@pytest.mark.parametrize("free", [1 << 40, 0])
def test_what_the_free_memory_holds_stays_there(tmp_path, dataset, monkeypatch, free):
    write_run(tmp_path / "run", dataset, SMALLEST_CACHE, **SETTINGS)
    monkeypatch.setattr(disk, "PageBudget", lambda: PageBudget(lambda: free))
    blocks = sorted((dataset / "blocks").iterdir())
    for block in blocks:
        with block.open("rb") as file:
            os.fdatasync(file)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    rows = opened(tmp_path / "run")
    segments(rows)
    held = []
    for block in blocks:
        with block.open("rb") as file:
            held.append(pages_held(file.fileno()).mean())
    assert rows.lacked_memory == (not free) and (min(held) > 0.5 if free else max(held) < 0.5)


def test_a_slow_disk_is_left_to_the_reader(tmp_path, dataset):
    write_run(tmp_path / "run", dataset, SMALLEST_CACHE, **SETTINGS)
    seconds = iter(range(0, 10**9, 1000))
    with pytest.raises(OSError, match="slow"):
        segments(opened(tmp_path / "run", clock=lambda: float(next(seconds))))


@pytest.mark.parametrize("shift", [0.0, 1e-6])
def test_a_run_that_goes_on_needs_no_pass_and_a_certificate_makes_sure_of_its_w(tmp_path, dataset, shift):
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
    assert control["rows_streamed"] < first.state.control["rows_streamed"] + N_ROWS
