"""Reads bytes of a file, again where a connection broke, and checks that the file has not changed."""

import time
from collections.abc import Callable
from functools import partial

from streamsvm.reader.errors import InputError
from streamsvm.reader.sources.faults import PAUSES, fault, persistently
from streamsvm.reader.sources.files import SourceFile, Store, store_of
from streamsvm.reader.sources.locations import located


def read_bytes(file: SourceFile, start: int, stop: int, sleep: Callable[[float], None] = time.sleep) -> bytes:
    """Bytes [start, stop), in memory at once. InputError source_changed, source_denied, source_unavailable."""
    location = located(file.url)
    path, store = location.path, store_of(location)
    pieces: list[bytes] = []
    failures = 0
    while start < stop:
        try:
            piece = store.read(path, start, stop)
        except Exception as error:
            _look_again(store, path, file)
            translated = fault(error, file.url)
            if translated.code != "source_unavailable" or failures == len(PAUSES):
                raise translated from None
            sleep(PAUSES[failures])
            failures += 1
            continue
        if not 0 < len(piece) <= stop - start:
            check_unchanged(file)
            raise InputError("source_unavailable", f"{file.url}: the store gave other bytes than were asked for")
        pieces.append(piece)
        start += len(piece)
        failures = 0
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def check_unchanged(file: SourceFile) -> None:
    """InputError source_changed if a file has changed or is gone; other InputErrors if nobody can look at it."""
    location = located(file.url)
    try:
        seen = persistently(partial(store_of(location).look, location.path), file.url)
    except InputError as error:
        raise (_removed(file) if error.code == "source_not_found" else error) from None
    _compare(file, seen)


def _look_again(store: Store, path: str, file: SourceFile) -> None:
    """InputError source_changed if a failed read may come from a change; nothing if the store does not answer."""
    try:
        seen = store.look(path)
    except Exception as error:
        if fault(error, file.url).code == "source_not_found":
            raise _removed(file) from None
        return
    _compare(file, seen)


def _compare(file: SourceFile, seen: tuple[str, int, str]) -> None:
    if seen[1:] != (file.size, file.version):
        raise InputError("source_changed", f"{file.url} changed while it was read")


def _removed(file: SourceFile) -> InputError:
    return InputError("source_changed", f"{file.url} was removed while it was read")
