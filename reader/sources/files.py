"""Files of a source, and what a store has to be able to do."""

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
    """A file as it was when it was found.

    url      how it is called: scheme://bucket/key, or a path
    size     bytes
    version  changes when the file does: its ETag, or its time
    """

    url: str
    size: int
    version: str


class Store(Protocol):
    """Errors are those of the library below; `faults` tells what they mean."""

    def find(self, path: str) -> list[tuple[str, int, str]]:
        """Path, size and version of the file of this name, or of all that a pattern stands for."""

    def look(self, path: str) -> tuple[str, int, str]:
        """The same of one file, as it is now; its name is no pattern."""

    def read(self, path: str, start: int, stop: int) -> bytes:
        """Bytes [start, stop) of a file, or fewer."""


# That are open, by scheme.
STORES: dict[str, Store] = {LOCAL: LocalStore()}


def list_files(urls: Sequence[str]) -> list[SourceFile]:
    """The files of a source: URLs, paths or patterns; those of a pattern by name.

    Raises InputError: source_not_found, source_empty, source_denied, source_unavailable, not_installed, and what
    `located` raises.
    """
    return [file for url in urls for file in _files_of(url, located(url))]


def _files_of(url: str, location: Location) -> list[SourceFile]:
    found = persistently(partial(store_of(location).find, location.path), url)
    if not found:
        raise InputError("source_empty", f"no file matches {url}")
    return [SourceFile(location.url_of(path), size, version) for path, size, version in sorted(found)]


def store_of(location: Location) -> Store:
    """The store that has this file. InputError not_installed."""
    if location.scheme not in STORES:
        check_installed(location)
        # An extra, and slow to import.
        from streamsvm.reader.sources.remote import RemoteStore  # noqa: PLC0415

        STORES[location.scheme] = RemoteStore.of_scheme(location.scheme)
    return STORES[location.scheme]
