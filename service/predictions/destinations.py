"""Writes predictions to a file of this machine, or an object of a store, which exists whole or not at all."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

from streamsvm.reader.errors import InputError
from streamsvm.reader.sources.files import LOCAL, Location, RemoteStore, is_pattern, located, persistently, store_of
from streamsvm.service.errors import ServiceError, needing_space
from streamsvm.storage.files.durable import publish

_WHERE = "Check the folder and who may write to it."
Fill = Callable[[IO[bytes]], None]


def check_destination(destination: str) -> Location:
    """Parse a path or URL to write to. Raises InputError as `located` does, ServiceError destination_invalid, or
    destination_unwritable if there is no folder for a file of this machine.
    """
    location = located(destination)
    if is_pattern(location.path) and location.scheme != LOCAL:
        raise ServiceError("destination_invalid", "the destination is a pattern", "Name one file.")
    if location.scheme == LOCAL and not Path(location.path).resolve().parent.is_dir():
        message = f"there is no folder {Path(location.path).parent} for the destination"
        raise ServiceError("destination_unwritable", message, _WHERE)
    return location


def write_whole(destination: str, fill: Fill, scratch: Path, name: str) -> None:
    """Have `fill` write a file, and rename it to the destination, or send it there; an older file is replaced.

    scratch  directory for a file before it is sent to a store
    name     ends the name of the unfinished file; an unfinished file of an earlier attempt is replaced

    Raises ServiceError out_of_space, destination_unwritable.
    """
    location = check_destination(destination)
    if location.scheme == LOCAL:
        path = Path(location.path).resolve()
        with _unfinished(path.with_name(f".{path.name}.{name}")) as staged:
            _fill(staged, fill, lambda: publish(staged, path))
        return
    with _unfinished(scratch / f"whole.{name}") as staged:
        _fill(staged, fill)
        _send(location, staged, destination)


def remove_unfinished(destination: str, name: str) -> None:
    """Remove the unfinished file that a killed `write_whole` with this name may have left on this machine."""
    with suppress(OSError, InputError, ServiceError):
        location = check_destination(destination)
        if location.scheme == LOCAL:
            path = Path(location.path).resolve()
            path.with_name(f".{path.name}.{name}").unlink(missing_ok=True)


def _fill(staged: Path, fill: Fill, finish: Callable[[], None] = lambda: None) -> None:
    try:
        with needing_space():
            with staged.open("wb") as file:
                fill(file)
            finish()
    except OSError as error:
        message = f"the destination cannot be written: {error.strerror or type(error).__name__}"
        raise ServiceError("destination_unwritable", message, _WHERE) from error


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """Yield the path; when the `with` statement ends, remove the file there, unless it was renamed."""
    try:
        yield path
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _send(location: Location, staged: Path, destination: str) -> None:
    """Send a file to a store, which shows only whole files. Raises ServiceError destination_unwritable."""
    store = store_of(location)
    assert isinstance(store, RemoteStore)
    try:
        persistently(partial(store.write, location.path, staged), destination)
    except InputError as error:
        message = error.message.replace("read", "written")
        raise ServiceError("destination_unwritable", message, "Check the bucket, and who may write to it.") from None
