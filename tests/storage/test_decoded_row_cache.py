"""Decoded rows of a job are found by the next under their key, unchanged, and deleted when the disk is short."""

import numpy as np
import pytest

from streamsvm.storage.files.document import pack
from streamsvm.storage.rows import decoded_row_cache
from streamsvm.storage.rows.decoded_row_cache import DecodedRowCache
from streamsvm.storage.rows.spill_file import SpillFile, make_buffer

SIZE = 4096
KEY = {"uid": "a", "positive": 1.0, "bias": None}


@pytest.fixture
def dataset(tmp_path):
    """A directory in which a file of two segments is kept."""
    file = SpillFile(tmp_path, SIZE)
    for number in range(2):
        buffer = make_buffer(SIZE)
        buffer[:] = bytes([number + 1]) * SIZE
        file.append(buffer)
    directory = tmp_path / "dataset"
    directory.mkdir()
    DecodedRowCache(directory, KEY).keep(file, n_rows=7)
    file.close()
    return directory


def test_rows_are_found_under_their_key(dataset):
    file, n_rows = DecodedRowCache(dataset, KEY).find()
    assert n_rows == 7 and len(file) == 2 and file.bytes == 2 * SIZE
    for number in range(2):
        assert bytes(file.read(number, make_buffer(SIZE))) == bytes([number + 1]) * SIZE
    file.close()


def test_segments_longer_than_most_are_found_as_they_were(tmp_path):
    file = SpillFile(tmp_path, SIZE)
    sizes = [SIZE, 3 * SIZE, SIZE, 2 * SIZE]
    for number, size in enumerate(sizes):
        buffer = make_buffer(size)
        buffer[:] = bytes([number + 1]) * size
        file.append(buffer)
    DecodedRowCache(tmp_path, KEY).keep(file, n_rows=9)
    file.close()
    reopened, _ = DecodedRowCache(tmp_path, KEY).find()
    assert reopened.segment_bytes == SIZE and reopened.bytes == sum(sizes)
    for number in (3, 1, 0, 2):
        assert bytes(reopened.read(number, make_buffer(4 * SIZE))) == bytes([number + 1]) * sizes[number]
    reopened.close()


def test_an_index_has_the_oldest_version_that_can_express_it(dataset):
    """Older programs read version 3, where all segments have one size, and take a newer index for absent."""
    file, _ = DecodedRowCache(dataset, KEY).find()
    file.close()
    content = {"key": KEY, "n_rows": 7, "segment_bytes": SIZE, "sums": file.sums}
    assert (dataset / decoded_row_cache.INDEX).read_bytes() == pack(content, 3)
    (dataset / decoded_row_cache.INDEX).write_bytes(pack(content, 5))
    assert DecodedRowCache(dataset, KEY).find() is None


@pytest.mark.parametrize("other", [{"uid": "b"}, {"positive": 2.0}, {"bias": 1.0}])
def test_rows_of_another_problem_are_not_found(dataset, other):
    assert DecodedRowCache(dataset, {**KEY, **other}).find() is None


def test_a_damaged_segment_raises_an_error(dataset):
    path = dataset / decoded_row_cache.FILE
    data = bytearray(path.read_bytes())
    data[SIZE + 9] ^= 4
    path.chmod(0o600)
    path.write_bytes(data)
    file, _ = DecodedRowCache(dataset, KEY).find()
    file.read(0, make_buffer(SIZE))
    with pytest.raises(OSError, match="did not come back"):
        file.read(1, make_buffer(SIZE))
    file.close()


@pytest.mark.parametrize("name", [decoded_row_cache.FILE, decoded_row_cache.INDEX])
def test_a_file_or_an_index_alone_counts_as_absent(dataset, name):
    (dataset / name).unlink()
    assert DecodedRowCache(dataset, KEY).find() is None


def test_a_damaged_index_counts_as_absent(dataset):
    index = dataset / decoded_row_cache.INDEX
    index.write_bytes(index.read_bytes().replace(b'"n_rows": 7', b'"n_rows": 8'))
    assert DecodedRowCache(dataset, KEY).find() is None


@pytest.mark.parametrize(("free", "is_short"), [(2 * SIZE - 1, True), (2 * SIZE, False)])
def test_rows_are_deleted_when_less_is_free_than_they_take(dataset, free, is_short):
    reading, _ = DecodedRowCache(dataset, KEY).find()
    assert decoded_row_cache.release_when_short(dataset.parent, free) == is_short
    assert (dataset / decoded_row_cache.FILE).exists() != is_short
    # The next job that asks is told once that they were released.
    assert not DecodedRowCache(dataset, {**KEY, "uid": "b"}).take_release_notice()
    assert [DecodedRowCache(dataset, KEY).take_release_notice() for _ in range(2)] == [is_short, False]
    assert not (dataset / decoded_row_cache.RELEASED).exists() and not (
        is_short and (dataset / decoded_row_cache.INDEX).exists()
    )
    # A job that has the file open can still read it.
    assert np.frombuffer(reading.read(1, make_buffer(SIZE)), np.uint8).max() == 2
    reading.close()
