"""SpillFile returns segments as they were written or raises OSError, has no name, and takes only free memory."""

import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from streamsvm.storage.rows.spill_file import SPILL_SEGMENT, SpillFile, make_buffer
from tests.disks import pages_held


def filled(seed):
    buffer = make_buffer()
    buffer[:] = np.random.default_rng(seed).bytes(SPILL_SEGMENT)
    return buffer


@pytest.fixture(params=["disk", "memory"])
def directory(request, tmp_path):
    """A directory on a disk, where the page cache can be bypassed, and one in memory."""
    if request.param == "disk":
        return tmp_path
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no file system in memory")
    return Path("/dev/shm")


@pytest.fixture
def file(directory):
    file = SpillFile(str(directory))
    yield file
    file.close()


def test_segments_come_back(file):
    for seed in range(5):
        file.append(filled(seed))
    assert len(file) == 5
    buffer = make_buffer()
    for number in (3, 0, 4, 3):
        assert file.read(number, buffer)[:] == filled(number)[:]


def test_a_cleared_file_is_written_again(file):
    for seed in range(3):
        file.append(filled(seed))
    file.clear()
    assert len(file) == 0
    assert file.bytes == 3 * SPILL_SEGMENT  # it keeps its space
    file.append(filled(7))
    assert (len(file), file.bytes) == (1, 3 * SPILL_SEGMENT)
    assert file.read(0, make_buffer())[:] == filled(7)[:]


def test_it_has_no_name(tmp_path):
    file = SpillFile(str(tmp_path))
    file.append(filled(0))
    assert list(tmp_path.iterdir()) == []
    file.close()


@pytest.mark.parametrize("place", [0, SPILL_SEGMENT // 2, SPILL_SEGMENT - 1])
def test_a_segment_that_changed_on_disk_is_not_used(file, place):
    for seed in range(2):
        file.append(filled(seed))
    damaged = filled(1)
    damaged[place] ^= 1
    os.pwrite(file._file, damaged, SPILL_SEGMENT)
    assert file.read(0, make_buffer())
    with pytest.raises(OSError, match="spilled segment 1"):
        file.read(1, make_buffer())


def test_a_segment_that_the_disk_lost_is_not_used(file):
    file.append(filled(0))
    os.ftruncate(file._file, SPILL_SEGMENT // 2)
    with pytest.raises(OSError, match="spilled segment 0"):
        file.read(0, make_buffer())


def test_a_directory_that_is_gone_has_no_file(tmp_path):
    with pytest.raises(OSError):
        SpillFile(str(tmp_path / "nothing"))


@pytest.mark.parametrize(("segments_free", "held"), [(1 << 20, 100), (200, 100), (120, 60), (0, 0)])
def test_half_of_the_free_memory_holds_its_first_segments(tmp_path, segments_free, held):
    small, looks = mmap.PAGESIZE, []
    file = SpillFile(tmp_path, small, free=lambda: looks.append(1) or segments_free * small)
    buffer = make_buffer(small)
    for _ in range(100):
        file.append(buffer)
    for number in np.random.default_rng(0).permutation(100).tolist():
        file.read(number, buffer)
    assert np.flatnonzero(pages_held(file._file)).tolist() == list(range(held))
    assert file.budget.lacked_memory == (held < 100)
    assert 3 <= len(looks) <= 5  # asking takes time
    file.close()


def test_segments_stay_the_same_while_free_memory_changes(directory):
    small, free = 4096, [0]
    file = SpillFile(directory, small, free=lambda: free[0])
    buffer = make_buffer(small)
    for seed, free[0] in enumerate([1 << 40, 0, 1 << 40, 0]):
        buffer[:] = bytes([seed]) * small
        file.append(buffer)
        for _ in range(100):
            for number in range(seed + 1):
                assert file.read(number, buffer)[:] == bytes([number]) * small
        assert directory == Path("/dev/shm") or pages_held(file._file).all() == (free[0] > 0)
    file.close()
