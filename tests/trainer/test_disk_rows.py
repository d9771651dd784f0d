"""What a pass brings comes back from the disk as it was, or not at all."""

import errno
import itertools

import numpy as np
import pytest

from streamsvm.storage.rows.segment import ROW_ID, bytes_of, row_bytes
from streamsvm.storage.rows.spill_file import SpillFile
from streamsvm.trainer.rows.disk import DiskRows
from streamsvm.trainer.rows.mixture import SEGMENTS
from tests.contracts.objectives import plain_segment
from tests.contracts.problems import random_problem
from tests.trainer.disks import SMALL, Disk, refuses

N_ROWS = 400
ALL = np.arange(N_ROWS, dtype=np.int32)


@pytest.fixture(scope="module")
def rows():
    X, y = random_problem(N_ROWS)
    Qii = np.asarray(X.multiply(X).sum(axis=1)).ravel().astype(np.float64)
    row_id = np.random.default_rng(0).permutation(N_ROWS).astype(ROW_ID)
    return plain_segment(row_id, y, Qii, X.indptr.astype(np.int32), X.indices.astype(np.int32), X.data)


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
def store(tmp_path, disk):
    made = disk.rows(str(tmp_path))
    yield made
    made.shutdown()
    assert all(file.is_closed for file in disk.files)


@pytest.fixture
def sealed(store, rows):
    store.collect(rows, ALL)
    store.seal(N_ROWS)
    assert store.is_open and store.is_sealed
    return store


def content(rows):
    """Each row by its id, to the byte."""
    ends = itertools.pairwise(rows.indptr.tolist())
    own = (
        (rows.class_code[k], rows.Qii[k], rows.indices[a:b].tobytes(), rows.values[a:b].tobytes())
        for k, (a, b) in enumerate(ends)
    )
    return dict(zip(rows.row_id.tolist(), own, strict=True))


def swept(store, rng, is_active=None):
    found = [content(rows) for rows in store.windows(is_active, rng)]
    together = {row: own for part in found for row, own in part.items()}
    assert len(together) == sum(map(len, found))
    return together


def some(row_id):
    return row_id % 3 == 0


def narrow(store, rng):
    """Set `some` rows aside in a sweep."""
    store.forget_active()
    for window in store.windows(None, rng):
        store.set_aside(window, np.flatnonzero(some(window.row_id)).astype(np.int32))
    store.narrow()


def test_rows_come_back_when_all_have_been_collected(store, rows, disk):
    rng = np.random.default_rng(1)
    picked = rng.permutation(N_ROWS).astype(np.int32)
    for part in np.split(picked, [100, 101, 250]):
        store.collect(rows, part)
        assert not store.is_sealed and list(store.windows(None, rng)) == []
    store.seal(N_ROWS)
    assert store.is_sealed and store.n_rows == N_ROWS
    assert disk.calls["append"] > 10
    for _ in range(3):
        assert swept(store, rng) == content(rows)


def test_all_or_nothing(store, rows):
    store.collect(rows, ALL[:-1])
    store.seal(N_ROWS)
    assert not store.is_open and not store.is_sealed
    assert list(store.windows(None, np.random.default_rng(0))) == []
    store.collect(rows, ALL)  # too late
    store.seal(N_ROWS)
    assert not store.is_open


def test_what_is_sealed_takes_no_more(sealed, rows):
    sealed.collect(rows, ALL[:9])
    sealed.seal(N_ROWS + 9)
    assert sealed.is_sealed and sealed.n_rows == N_ROWS
    assert swept(sealed, np.random.default_rng(0)) == content(rows)


def test_a_segments_rows_have_other_neighbours_in_each_sweep(sealed, disk):
    rng = np.random.default_rng(4)
    n_segments = disk.calls["append"]
    assert n_segments > 2 * SEGMENTS
    together = [{frozenset(window.row_id.tolist()) for window in sealed.windows(None, rng)} for _ in range(4)]
    assert all(len(sweep) == -(-n_segments // SEGMENTS) for sweep in together)
    assert not set.intersection(*together)


@pytest.mark.parametrize("lent", [1, 2, 5])
def test_a_window_is_valid_until_so_many_more_were_taken(tmp_path, rows, disk, lent):
    store = disk.rows(str(tmp_path), lent)
    store.collect(rows, ALL)
    store.seal(N_ROWS)
    held, found, whole = [], 0, content(rows)
    for window in store.windows(None, np.random.default_rng(0)):
        held = [*held, (window, content(window))][-lent:]
        for one, was in held:
            assert content(one) == was
        found += len(window)
        assert all(whole[row] == own for row, own in held[-1][1].items())
    assert found == N_ROWS
    store.shutdown()


def test_those_set_aside_can_be_had_on_their_own(sealed, rows, disk):
    rng, whole = np.random.default_rng(5), content(rows)
    ids = {row for row in whole if row % 3 == 0}
    for _ in range(2):
        narrow(sealed, rng)
        before = disk.calls["read"]
        assert swept(sealed, rng, some) == {row: whole[row] for row in ids}
        assert disk.calls["read"] - before < len(disk.files[0]) / 2
        assert set(swept(sealed, rng, some)) == ids  # again and again
        assert swept(sealed, rng) == whole
        sealed.forget_active()
        assert swept(sealed, rng, some) == whole  # maybe others, too


def test_what_becomes_active_later_is_added_to_those_set_aside(sealed, rows, disk):
    rng, whole = np.random.default_rng(5), content(rows)
    narrow(sealed, rng)
    segments, known = len(disk.files[1]), sealed.n_aside
    assert known == len([row for row in whole if some(row)])
    more = np.array([row for row in whole if some(row) or row < 20], np.int32)
    sealed.set_aside(rows, np.flatnonzero(np.isin(rows.row_id, more)).astype(np.int32))
    sealed.narrow()
    assert swept(sealed, rng, some) == {row: whole[row] for row in more.tolist()}
    assert sealed.n_aside == len(more) and len(disk.files[1]) - segments < segments / 2
    sealed.forget_active()
    assert sealed.n_aside == 0


def test_a_set_that_the_disk_did_not_take_whole_is_not_used(sealed, rows, disk):
    """All rows are swept over instead: none that has moved is left out."""
    rng = np.random.default_rng(6)
    disk.free = 2 * disk.files[0].bytes
    narrow(sealed, rng)
    assert sealed.is_open and swept(sealed, rng, some) == content(rows)
    # In part, too, and with room again it is.
    for free, narrows in ((2 * disk.files[0].bytes + 4 * SMALL, False), (1 << 40, True)):
        disk.free = free
        narrow(sealed, rng)
        assert (len(swept(sealed, rng, some)) < N_ROWS) == narrows


def of_lengths(lengths):
    rng, indptr = np.random.default_rng(0), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    values = rng.random(indptr[-1], np.float32)
    ids, y = np.arange(len(lengths)), np.ones(len(lengths))
    return plain_segment(ids, y, rng.random(len(lengths)), indptr, rng.integers(0, 99, len(values), np.int32), values)


LONGEST = (SMALL - bytes_of(1, 0)) // 8  # values of a row that fills a segment
LENGTHS = {
    "one long": [10] * 900 + [20 * SMALL] + [10] * 900,
    "first": [LONGEST + 1] + [10] * 900,
    "last": [10] * 900 + [LONGEST + 1],
    "all": [3 * SMALL] * 9,
    "just not": [LONGEST] * 30,
    "of all lengths": np.random.default_rng(3).integers(0, 4 * LONGEST, 200).tolist(),
}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_rows_longer_than_a_segment_come_back_beside_the_others(tmp_path, disk, lengths):
    rows, rng = of_lengths(lengths), np.random.default_rng(1)
    whole, store = content(rows), disk.rows(str(tmp_path))
    for part in np.array_split(rng.permutation(len(lengths)).astype(np.int32), 3):
        store.collect(rows, part)
    store.seal(len(lengths))
    assert store.is_sealed and swept(store, rng) == whole
    store.forget_active()
    for window in store.windows(None, rng):
        store.set_aside(window, np.flatnonzero(some(window.row_id)).astype(np.int32))
    store.narrow()
    assert swept(store, rng, some) == {row: own for row, own in whole.items() if row % 3 == 0}
    store.shutdown()
    assert disk.files[0].bytes <= 1.6 * row_bytes(np.array(lengths)).sum() + 2 * SMALL


def test_of_long_rows_no_more_are_held_than_of_short_ones(tmp_path, disk):
    """A window has up to sixteen segments' bytes, or one row."""
    store, rows = disk.rows(str(tmp_path)), of_lengths([3 * SMALL // 8, SMALL, 3 * SMALL] * 30)
    store.collect(rows, np.arange(90, dtype=np.int32))
    store.seal(90)
    windows = list(map(len, store.windows(None, np.random.default_rng(0))))
    assert max(windows) > 1
    rng = np.random.default_rng(0)
    assert all(len(each) == 1 or each.row_bytes.sum() <= 16 * SMALL for each in store.windows(None, rng))
    store.shutdown()


def test_a_long_row_that_the_disk_has_no_room_for_closes_it(store, disk):
    disk.free = 8 * SMALL
    store.collect(of_lengths([10, SMALL, 10]), np.arange(3, dtype=np.int32))
    assert not store.is_open
    store.seal(3)
    assert not store.is_sealed and all(file.bytes == 0 for file in disk.files)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_it_leaves_most_of_the_disk_to_others(sealed, rows, disk, tmp_path, share):
    """Its file grows only while twice its size is free."""
    disk.free = int(2 * share * disk.files[0].bytes)
    store = disk.rows(str(tmp_path))
    store.collect(rows, ALL)
    store.seal(N_ROWS)
    assert not store.is_open
    assert disk.files[-2].is_closed and disk.files[-2].bytes <= disk.free
    store.shutdown()


def test_the_disk_is_given_back_when_others_need_it(sealed, rows, disk):
    """In the middle of a sweep, too, which ends early."""
    rng, found = np.random.default_rng(0), 0
    sealed.forget_active()
    for window in sealed.windows(None, rng):
        found += len(window)
        disk.free = SMALL
        sealed.set_aside(window, np.arange(len(window), dtype=np.int32))
    assert found < N_ROWS and not sealed.is_open
    assert list(sealed.windows(None, rng)) == []


@pytest.mark.parametrize(("pauses", "stays"), [(1, True), (1000, False)])
def test_a_disk_that_pauses_once_is_not_slow(sealed, disk, pauses, stays):
    def pause(kind, call):
        disk.seconds += 10.0 if call <= pauses else 1e-6

    disk.fails = pause
    assert (len(swept(sealed, np.random.default_rng(0))) == N_ROWS) == stays
    assert sealed.is_open == stays


@pytest.mark.parametrize("at", [1, 3, 13])
def test_a_disk_that_gives_no_more_back_ends_the_sweep(sealed, disk, at):
    disk.fails = refuses("read", at)
    assert len(swept(sealed, np.random.default_rng(0))) < N_ROWS
    assert not sealed.is_open


def test_a_failure_in_what_is_active_closes_it(sealed, rows, disk):
    rng = np.random.default_rng(0)
    disk.fails = refuses("append", disk.calls["append"] + 2)
    narrow(sealed, rng)
    assert not sealed.is_open
    narrow(sealed, rng)  # nothing happens


@pytest.mark.parametrize("taken", [1, 2, 3])
def test_closing_while_reads_are_under_way_is_safe(sealed, disk, taken):
    windows = sealed.windows(None, np.random.default_rng(0))
    for _ in range(taken):
        next(windows)
    sealed.close()
    assert all(file.is_closed for file in disk.files)
    assert next(windows, None) is None


@pytest.mark.parametrize("taken", [0, 2])
def test_a_sweep_that_is_given_up_can_be_followed_by_another(sealed, rows, taken):
    windows = sealed.windows(None, np.random.default_rng(0))
    for _ in range(taken):
        next(windows)
    windows.close()
    assert swept(sealed, np.random.default_rng(1)) == content(rows)


@pytest.mark.parametrize(
    ("directory", "codes"), [(None, set()), ("/proc/self", {"disk_failed"}), ("nowhere", {"disk_failed"})]
)
def test_without_a_disk_nothing_is_kept(directory, codes, rows):
    store = DiskRows(directory)
    assert not store.is_open and store.slowdowns == codes
    store.collect(rows, ALL)
    store.seal(N_ROWS)
    assert not store.is_sealed and list(store.windows(None, np.random.default_rng(0))) == []
    store.forget_active()
    store.set_aside(rows, ALL)
    store.narrow()
    store.shutdown()


def test_without_room_for_the_buffers_of_a_second_file_the_first_is_closed(tmp_path):
    """Nothing is left open of what could not be made as a whole."""
    disk = Disk()

    def file(directory, segment_bytes):
        if disk.files:
            raise OSError("no more files")
        return disk.file(directory, segment_bytes)

    store = DiskRows(str(tmp_path), make_file=file)
    assert not store.is_open and disk.files[0].is_closed
    store.shutdown()


def full(disk, store):
    disk.free = 8 * SMALL


def others_need_it(disk, store):
    disk.free = 0


def no_space_left(disk, store):
    def fails(kind, call):
        raise OSError(errno.ENOSPC, "no space left")

    disk.fails = fails


def slow(disk, store):
    disk.second = 10.0


def gone_at_once(disk, store):
    disk.fails = refuses("append", 1)


def gone(disk, store):
    disk.fails = refuses("append", 13)


@pytest.mark.parametrize(
    ("happens", "code"),
    [(full, "disk_full"), (others_need_it, "disk_full"), (no_space_left, "disk_full"), (slow, "disk_slow"),
     (gone_at_once, "disk_failed"), (gone, "disk_failed")],
)  # fmt: skip
def test_why_it_is_closed_is_said(store, disk, rows, happens, code):
    assert store.slowdowns == set()
    happens(disk, store)
    store.collect(rows, ALL)
    store.seal(N_ROWS)
    assert not store.is_open and store.slowdowns == {code}


def test_what_comes_back_otherwise_is_a_disk_that_failed(sealed, disk):
    disk.files[0].damage(1)
    assert len(swept(sealed, np.random.default_rng(0))) < N_ROWS
    assert not sealed.is_open and sealed.slowdowns == {"disk_failed"}


@pytest.mark.parametrize(("free", "codes"), [(1 << 40, set()), (1, {"disk_uncached"})])
def test_memory_that_is_not_free_is_said(tmp_path, rows, free, codes):
    store = DiskRows(str(tmp_path), make_file=lambda *where: SpillFile(*where, free=lambda: free))
    for _ in range(80):  # it looks for memory now and then
        store.collect(rows, ALL)
    for _ in range(80):
        store.seal(80 * N_ROWS)
        list(store.windows(None, np.random.default_rng(0)))
    assert store.is_sealed and store.slowdowns == codes
    store.shutdown()
