"""Lists the files of a source; defines the protocol of stores, and the store of files that have a path."""

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from streamsvm.reader.errors import InputError
from streamsvm.reader.sources.faults import persistently
from streamsvm.reader.sources.locations import LOCAL, Location, Pattern, check_installed, located

_FOLDERS = "**"


@dataclass(frozen=True)
class SourceFile:
    """A file, as it was when it was listed.

    url      scheme://bucket/key, or a path
    size     in bytes
    version  changes when the file does: its ETag, or its time
    """

    url: str
    size: int
    version: str


class Store(Protocol):
    """Raises the errors of the library below it; `faults` translates them."""

    def find(self, path: str) -> list[tuple[str, int, str]]:
        """Path, size and version of the file with this name, or of all files that match a pattern."""

    def look(self, path: str) -> tuple[str, int, str]:
        """Path, size and version of one file now; its name is no pattern."""

    def read(self, path: str, start: int, stop: int) -> bytes:
        """Bytes [start, stop) of a file, or fewer of them."""


class LocalStore:
    """A `Store` of files on a disk, or on a file system that machines share."""

    def find(self, path: str) -> list[tuple[str, int, str]]:
        """See `Store`. If a file has the name, it is taken even if the name looks like a pattern."""
        if not glob.has_magic(path) or os.path.isfile(path):  # noqa: PTH113 - it raises nothing for long names
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


# Open stores, by scheme.
STORES: dict[str, Store] = {LOCAL: LocalStore()}


def list_files(urls: Sequence[str]) -> list[SourceFile]:
    """The files of a source: URLs, paths or patterns. Files of a pattern are sorted by name.

    InputError source_not_found, source_empty, source_denied, source_unavailable, not_installed, and the errors of
    `located`.
    """
    return [file for url in urls for file in _files_of(url, located(url))]


def _files_of(url: str, location: Location) -> list[SourceFile]:
    files = persistently(partial(store_of(location).find, location.path), url)
    if not files:
        raise InputError("source_empty", f"no file matches {url}")
    return [SourceFile(location.url_of(path), size, version) for path, size, version in sorted(files)]


def store_of(location: Location) -> Store:
    """The store that holds this file. InputError not_installed."""
    if location.scheme not in STORES:
        check_installed(location)
        # fsspec is an extra, and slow to import.
        from streamsvm.reader.sources.remote import RemoteStore  # noqa: PLC0415

        STORES[location.scheme] = RemoteStore.of_scheme(location.scheme)
    return STORES[location.scheme]


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
