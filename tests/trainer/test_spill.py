"""What is kept in a pass can be read in the next, and the state says of each row whether it can."""

import errno
import itertools
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import storage.spill_file
import trainer.disk_pace
import trainer.mixture
import trainer.spill
import trainer.windows
from storage.segment import ROW_ID, TARGET, Segment, row_bytes
from storage.state import SPILLED, SPILLING
from tests.contracts.problems import random_problem
from trainer.spill import Spill

Usage = namedtuple("Usage", "total used free")

N_ROWS = 400
SMALL = 4 << 10  # many segments for a few rows


@pytest.fixture(autouse=True)
def small_segments(monkeypatch):
    monkeypatch.setattr(trainer.disk_pace, "_TOO_SLOW", np.inf)
    monkeypatch.setattr(storage.spill_file, "SPILL_SEGMENT", SMALL)
    monkeypatch.setattr(trainer.spill, "SPILL_SEGMENT", SMALL)


@pytest.fixture
def rows():
    X, y = random_problem(N_ROWS)
    Qii = np.asarray(X.multiply(X).sum(axis=1)).ravel().astype(np.float64)
    row_id = np.random.default_rng(0).permutation(N_ROWS).astype(ROW_ID)
    return Segment(row_id, y.astype(TARGET), Qii, X.indptr.astype(np.int32), X.indices.astype(np.int32), X.data)


@pytest.fixture
def spilled():
    return np.zeros(N_ROWS, np.uint8)


@pytest.fixture
def spill(tmp_path, spilled):
    spill = Spill(str(tmp_path), spilled)
    yield spill
    spill.close()


@pytest.fixture
def free(monkeypatch):
    """Free bytes of the disk as the spill sees it, to be set."""
    free = [1 << 40]
    monkeypatch.setattr(trainer.spill.shutil, "disk_usage", lambda _path: Usage(1 << 40, 0, free[0]))
    return free


def content(rows):
    """Each row by its id, to the byte."""
    ends = itertools.pairwise(rows.indptr.tolist())
    own = (
        (rows.y[k], rows.Qii[k], rows.indices[a:b].tobytes(), rows.values[a:b].tobytes())
        for k, (a, b) in enumerate(ends)
    )
    return dict(zip(rows.row_id.tolist(), own, strict=True))


def swept(spill, rng):
    found = [content(rows) for rows in spill.sweep(rng)]
    together = {row: own for part in found for row, own in part.items()}
    assert len(together) == sum(map(len, found))
    return together


def test_rows_come_back_after_a_turn(spill, rows, spilled):
    rng = np.random.default_rng(1)
    picked = rng.permutation(N_ROWS)[:250].astype(np.int32)
    spill.keep(rows, picked[:100])
    spill.keep(rows, picked[100:])
    assert spill.n_segments == 0 and spill.read(rng) is None and list(spill.sweep(rng)) == []
    assert set(spilled[rows.row_id[picked]]) == {SPILLING}
    spill.turn()
    assert spill.n_segments > 2
    whole = content(rows)
    kept = rows.row_id[picked].tolist()
    assert swept(spill, rng) == {row: whole[row] for row in kept}
    assert sorted(np.flatnonzero(spilled)) == sorted(kept) and set(spilled[kept]) == {SPILLED}


def test_the_next_pass_replaces_them(spill, rows, spilled):
    rng = np.random.default_rng(2)
    first, second = np.arange(0, 300, dtype=np.int32), np.arange(200, 400, dtype=np.int32)
    spill.keep(rows, first)
    spill.turn()
    for _ in range(5):  # some of them read ahead, too
        spill.read(rng)
    spill.keep(rows, second)
    both = rows.row_id[200:300]
    assert set(spilled[both]) == {SPILLED | SPILLING}
    spill.turn()
    assert set(swept(spill, rng)) == set(rows.row_id[second].tolist()) == set(np.flatnonzero(spilled).tolist())
    spill.turn()
    assert spill.n_segments == 0 and not spilled.any()


def test_reading_goes_round_without_end(spill, rows):
    rng = np.random.default_rng(3)
    spill.keep(rows, np.arange(N_ROWS, dtype=np.int32))
    spill.turn()
    seen, orders = [], []
    while len(orders) < 6:
        window = spill.read(rng)
        if window is not None:
            seen += window.row_id.tolist()
            if len(seen) == N_ROWS:
                assert len(set(seen)) == N_ROWS
                orders.append(tuple(seen))
                seen = []
    assert len(set(orders)) > 1


def test_a_segments_rows_have_other_neighbours_in_each_sweep(spill, rows):
    rng = np.random.default_rng(4)
    spill.keep(rows, np.arange(N_ROWS, dtype=np.int32))
    spill.turn()
    assert spill.n_segments > 2 * trainer.mixture.SEGMENTS
    together = [{frozenset(window.row_id.tolist()) for window in spill.sweep(rng)} for _ in range(4)]
    assert all(len(sweep) == spill._windows.count(spill.n_segments) for sweep in together)
    assert not set.intersection(*together)


def test_it_is_narrow_for_a_while(spill, rows, spilled):
    rng = np.random.default_rng(5)
    everything = np.arange(N_ROWS, dtype=np.int32)
    spill.keep(rows, everything)
    spill.turn()
    ids, whole = set(rows.row_id.tolist()), content(rows)
    for _ in range(2):
        some = set()
        for window in spill.sweep(rng):
            picked = np.flatnonzero(window.row_id % 3 == 0).astype(np.int32)
            spill.set_aside(window, picked)
            some |= set(window.row_id[picked].tolist())
        assert set(swept(spill, rng)) == ids
        spill.narrow()
        assert 0 < len(some) < N_ROWS / 2
        assert swept(spill, rng) == {row: whole[row] for row in some}
        assert set(swept(spill, rng)) == some  # again and again
        assert spill.n_rows == N_ROWS and np.all(spilled == SPILLED)  # nobody else has to know
        spill.widen()
        assert set(swept(spill, rng)) == ids
    # What was set aside is not among what is kept next.
    spill.keep(rows, everything[:100])
    spill.turn()
    assert set(swept(spill, rng)) == set(rows.row_id[:100].tolist())


def test_it_does_not_narrow_if_the_disk_has_no_room(spill, rows, free):
    rng = np.random.default_rng(6)
    spill.keep(rows, np.arange(N_ROWS, dtype=np.int32))
    spill.turn()
    taken = spill._files[0].bytes
    free[0] = 2 * taken
    for window in spill.sweep(rng):
        spill.set_aside(window, np.arange(len(window), dtype=np.int32))
    spill.narrow()
    assert len(swept(spill, rng)) == N_ROWS and spill.is_whole
    free[0] = 1 << 40
    spill.keep(rows, np.arange(50, dtype=np.int32))
    spill.turn()
    assert len(swept(spill, rng)) == 50 and spill.is_whole


def test_a_row_longer_than_a_segment_is_left_to_the_reader(spill, spilled):
    lengths = np.array([10, SMALL, 20])
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    assert row_bytes(lengths)[1] > SMALL
    values = np.ones(indptr[-1], np.float32)
    rows = Segment(np.arange(3, dtype=ROW_ID), np.ones(3, TARGET), np.ones(3), indptr, values.astype(np.int32), values)
    spill.keep(rows, np.arange(3, dtype=np.int32))
    spill.turn()
    assert set(swept(spill, np.random.default_rng(0))) == {0, 2}
    assert np.flatnonzero(spilled).tolist() == [0, 2]


def test_it_leaves_most_of_the_disk_to_others(spill, rows, spilled, free):
    free[0] = 2 * 2 * SMALL
    spill.keep(rows, np.arange(N_ROWS, dtype=np.int32))
    spill.turn()
    assert 1 <= spill.n_segments <= 3  # one of them was on its way
    found = set(swept(spill, np.random.default_rng(0)))
    assert found == set(np.flatnonzero(spilled == SPILLED).tolist()) == set(np.flatnonzero(spilled).tolist())
    assert 0 < len(found) < N_ROWS


def test_a_sweep_ends_when_the_disk_is_given_back(spill, rows, spilled, free):
    spill.keep(rows, np.arange(N_ROWS, dtype=np.int32))
    spill.turn()
    free[0] = 0
    rng = np.random.default_rng(0)
    for some in spill.sweep(rng):
        spill.keep(some, np.arange(len(some), dtype=np.int32))
    assert spill.n_segments == 0 and not spilled.any()


def test_it_gives_the_disk_back_when_others_need_it(spill, rows, spilled, free):
    everything = np.arange(N_ROWS, dtype=np.int32)
    spill.keep(rows, everything[:200])
    spill.turn()
    spill.keep(rows, everything[200:300])
    assert spilled[rows.row_id[:300]].all()
    free[0] = SMALL
    for row in everything[300:]:
        spill.keep(rows, everything[row : row + 1])
    assert spill.n_segments == spill.n_rows == 0 and not spilled.any()


def test_it_says_whether_the_disk_took_all(spill, rows, spilled, monkeypatch):
    everything = np.arange(N_ROWS, dtype=np.int32)
    spill.keep(rows, everything)
    spill.turn()
    assert spill.is_whole and spill.n_rows == N_ROWS
    monkeypatch.setattr(trainer.spill, "_FREE_WANTED", np.inf)
    spill.keep(rows, everything)
    assert spill.is_whole  # of what can be read
    spill.turn()
    assert not spill.is_whole and spill.n_rows < N_ROWS
    monkeypatch.setattr(trainer.spill, "_FREE_WANTED", 2)
    spill.keep(rows, everything[:1])
    spill.turn()
    assert spill.is_whole


@pytest.mark.parametrize("reads", [True, False])
def test_a_slow_disk_is_left_to_the_reader(spill, rows, spilled, monkeypatch, reads):
    everything = np.arange(N_ROWS, dtype=np.int32)
    spill.keep(rows, everything)
    spill.turn()
    assert spilled.all()
    monkeypatch.setattr(trainer.disk_pace, "_TOO_SLOW", 1e-9)
    if reads:
        assert len(swept(spill, np.random.default_rng(0))) < N_ROWS
    else:
        spill.keep(rows, everything)
    assert spill.n_segments == 0 and not spilled.any()


@pytest.mark.parametrize(("pauses", "stays"), [(1, True), (1000, False)])
def test_a_disk_that_pauses_once_is_not_slow(spill, rows, spilled, monkeypatch, pauses, stays):
    everything = np.arange(N_ROWS, dtype=np.int32)
    spill.keep(rows, everything)
    spill.turn()
    real, clock, reads = storage.spill_file.SpillFile.read, [0.0], itertools.count()

    def read(file, number, buffer):
        clock[0] += 0.02 if next(reads) < pauses else 1e-6
        return real(file, number, buffer)

    spill._pace.forget()
    spill._windows._pool = ThreadPoolExecutor(1)  # two would share the clock
    monkeypatch.setattr(trainer.windows, "_READS", 1)
    monkeypatch.setattr(trainer.disk_pace, "_AVERAGED", 6)  # there are few segments
    monkeypatch.setattr(trainer.disk_pace, "_TOO_SLOW", 5e-3 / SMALL)
    monkeypatch.setattr(trainer.disk_pace.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(storage.spill_file.SpillFile, "read", read)
    assert (len(swept(spill, np.random.default_rng(0))) == N_ROWS) == stays
    assert spilled.all() == stays
    # From the next turn on it is tried again.
    assert (spill.n_rows > 0) == stays
    spill.turn()
    spill.keep(rows, everything)
    spill.turn()
    assert spilled.all() and spill.n_rows == N_ROWS and spill.is_whole


@pytest.mark.parametrize("fails", [0, 2])
def test_a_disk_that_takes_no_more_leaves_all_rows_to_the_reader(spill, rows, spilled, monkeypatch, fails):
    everything = np.arange(N_ROWS, dtype=np.int32)
    spill.keep(rows, everything)
    spill.turn()
    assert spill.n_segments > 2 and spilled.all()
    real = storage.spill_file.SpillFile.append

    def append(file, buffer):
        if len(file) == fails:
            raise OSError(errno.ENOSPC, "no room")
        real(file, buffer)

    monkeypatch.setattr(storage.spill_file.SpillFile, "append", append)
    spill.keep(rows, everything)
    spill.turn()
    assert spill.n_segments == 0 and not spilled.any()
    spill.keep(rows, everything)
    spill.turn()
    assert not spilled.any() and spill.read(np.random.default_rng(0)) is None


def test_a_disk_that_gives_back_something_else_leaves_all_rows_to_the_reader(spill, rows, spilled):
    spill.keep(rows, np.arange(N_ROWS, dtype=np.int32))
    spill.turn()
    spill._files[0]._sums[1] += 1
    found = swept(spill, np.random.default_rng(0))
    assert len(found) < N_ROWS
    assert spill.n_segments == 0 and not spilled.any()


@pytest.mark.parametrize("directory", [None, "/proc/self", "nowhere"])
def test_without_a_disk_nothing_is_kept(directory, rows, spilled):
    spill = Spill(directory, spilled)
    spill.keep(rows, np.arange(N_ROWS, dtype=np.int32))
    spill.turn()
    assert spill.n_segments == 0 and not spilled.any()
    assert spill.read(np.random.default_rng(0)) is None and list(spill.sweep(np.random.default_rng(0))) == []
    spill.close()
