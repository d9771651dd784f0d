"""Lists the files of a source; the protocol of stores."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from streamsvm.reader.errors import InputError
from streamsvm.reader.sources.faults import persistently
from streamsvm.reader.sources.local import LocalStore
from streamsvm.reader.sources.locations import LOCAL, Location, check_installed, located


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
