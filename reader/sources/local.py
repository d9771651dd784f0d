"""Reads files by path, on a disk or on a file system that machines share."""

import glob
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from streamsvm.reader.sources.patterns import Pattern

_FOLDERS = "**"


class LocalStore:
    """A `Store`."""

    def find(self, path: str) -> list[tuple[str, int, str]]:
        """See `Store`. If a file has the name, it is taken even if the name looks like a pattern."""
        if not glob.has_magic(path) or Path(path).is_file():
            return [self.look(path)]
        names = _below(path) if _FOLDERS in path.split("/") else glob.iglob(path)  # noqa: PTH207 - may be below a folder
        return [self.look(name) for name in names if Path(name).is_file()]

    def look(self, path: str) -> tuple[str, int, str]:
        """See `Store`. Raises OSError; IsADirectoryError also for a pipe or a device, which has no ranges."""
        status = Path(path).stat()
        if not stat.S_ISREG(status.st_mode):
            raise IsADirectoryError
        return path, status.st_size, f"{status.st_ino}-{status.st_mtime_ns}"

    def read(self, path: str, start: int, stop: int) -> bytes:
        """Bytes [start, stop) of a file, fewer if it ends before."""
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(file, stop - start, start)
        finally:
            os.close(file)


def _below(path: str) -> Iterator[str]:
    """Yield each file that matches a pattern with `**` once. (`glob` would yield it once for each way to match.)"""
    pattern, parts = Pattern(path), path.split("/")
    fixed = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    begin = "/".join(parts[:fixed])
    for folder, folders, files in os.walk(begin or (os.sep if fixed else os.curdir), followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        inside = folder if fixed else folder.removeprefix(os.curdir).lstrip("/")
        paths = (str(Path(inside, name)) for name in files if not name.startswith("."))
        yield from filter(pattern.matches, paths)
