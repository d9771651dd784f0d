"""Small disks, which can be full: they need the rights to mount; without, a test skips. What the page cache holds."""

import ctypes
import mmap
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest


@contextmanager
def mounted_disk(directory: Path, size: int) -> Iterator[None]:
    """A directory is on a disk of its own of so many bytes."""
    directory.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def pages_held(file: int) -> np.ndarray:
    """Which pages of an open file the kernel has in memory, (n,) bool."""
    size = os.fstat(file).st_size
    pages = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
    mapped = np.frombuffer(mmap.mmap(file, size, access=mmap.ACCESS_READ), np.uint8)
    assert ctypes.CDLL(None).mincore(*map(ctypes.c_void_p, (mapped.ctypes.data, size, pages.ctypes.data))) == 0
    return (pages & 1).astype(bool)
