"""read_range returns any range of a file, and leaves pages of it in the page cache only where it is to keep them."""

import errno
import mmap
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from streamsvm.storage.files.direct import Pages, read_range

SIZE = 5 * mmap.PAGESIZE + 123


@pytest.fixture
def content():
    return np.random.default_rng(0).bytes(SIZE)


@pytest.fixture
def file(tmp_path, content):
    path = tmp_path / "file"
    with path.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    return path


def read(path, offset, size, **how):
    with read_range(path, offset, size, **how) as data:
        return bytes(data)


PARTS = [(0, 0), (0, 1), (0, SIZE), (mmap.PAGESIZE, mmap.PAGESIZE), (mmap.PAGESIZE - 1, 2), (SIZE - 1, 1), (4999, 9001)]


@pytest.mark.parametrize("pages", Pages)
@pytest.mark.parametrize(("offset", "size"), PARTS)
def test_any_range(file, content, offset, size, pages):
    assert read(file, offset, size, pages=pages) == content[offset : offset + size]


@pytest.mark.parametrize("pages", Pages)
def test_a_range_beyond_the_end_is_cut(file, content, pages):
    assert read(file, SIZE - 10, 100, pages=pages) == content[-10:]
    assert read(file, 10 * SIZE, 100, pages=pages) == b""


def test_a_file_system_without_direct_reads(file, content, monkeypatch):
    """A file system in memory refuses O_DIRECT on older kernels."""
    opening = os.open

    def refuse(path, flags, *rest):
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return opening(path, flags, *rest)

    monkeypatch.setattr(os, "open", refuse)
    assert read(file, 100, 9000) == content[100:9100]


def test_other_errors_are_raised(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_range(tmp_path / "missing", 0, 10)


def test_ranges_in_use_keep_their_bytes(file, content):
    """Buffers are not reused while their ranges are in use, whatever other threads read meanwhile."""
    held = [read_range(file, offset, 5000) for offset in range(0, 10000, 1000)]
    with ThreadPoolExecutor(4) as pool:
        offsets = [offset % 12000 for offset in range(0, 400_000, 997)]
        contents = list(pool.map(lambda offset: read(file, offset, 4000), offsets))
    assert contents == [content[offset : offset + 4000] for offset in offsets]
    for number, part in enumerate(held):
        with part as data:
            assert bytes(data) == content[1000 * number :][:5000]
