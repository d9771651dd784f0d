"""Files by their paths, on a disk or on a file system that machines share."""

import glob
import os
import stat
from pathlib import Path


class LocalStore:
    """A `Store`."""

    def find(self, path: str) -> list[tuple[str, int, str]]:
        """A file whose name looks like a pattern is itself."""
        if not glob.has_magic(path) or Path(path).is_file():
            return [self.look(path)]
        names = glob.glob(path, recursive=True)  # noqa: PTH207 - a Path would take one below a folder
        return [self.look(name) for name in names if Path(name).is_file()]

    def look(self, path: str) -> tuple[str, int, str]:
        """Raises OSError; IsADirectoryError also for a pipe or a device, whose bytes have no places."""
        found = Path(path).stat()
        if not stat.S_ISREG(found.st_mode):
            raise IsADirectoryError
        return path, found.st_size, f"{found.st_ino}-{found.st_mtime_ns}"

    def read(self, path: str, start: int, stop: int) -> bytes:
        """Bytes [start, stop), fewer where the file ends before."""
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(file, stop - start, start)
        finally:
            os.close(file)
