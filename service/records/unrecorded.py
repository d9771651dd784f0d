"""Directories that may go because they are on no record: those that are marked, and no others.

That a record is missing is no reason to remove anything: the store may be an older copy, or another's. So who makes a
directory before its record, or removes the record before the directory, leaves a file `.NAME.unrecorded` beside it.
"""

import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from streamsvm.storage.files.durable import write_file

_ENDING = ".unrecorded"


def mark(directory: Path) -> None:
    """Mark it, to be removed when the service starts unless it is on record then."""
    write_file(_mark_of(directory), [])


@contextmanager
def unrecording(directory: Path) -> Iterator[None]:
    """Its record is removed in the block, and it after that; if the block raises, it stays."""
    with suppress(OSError):  # the disk may be full, and this is to make room
        mark(directory)
    try:
        yield
    except BaseException:
        unmark(directory)
        raise


def unmark(directory: Path) -> None:
    """Remove the mark: the directory stays, or has gone."""
    _mark_of(directory).unlink(missing_ok=True)


def is_marked(directory: Path) -> bool:
    """Whether nobody was told yet that it is there, or somebody wanted it removed."""
    return _mark_of(directory).exists()


def remove(directory: Path) -> None:
    """Remove it, and then its mark."""
    shutil.rmtree(directory, ignore_errors=True)
    unmark(directory)


def sweep(
    parent: Path,
    recorded: Collection[str],
    give_up: Callable[[Path], object] = remove,
    keeps: Callable[[Path], bool] = lambda _: False,
) -> None:
    """Give up what is marked and on no record, and remove what is half-written: all that is hidden, but what it keeps.

    Call it when nobody is writing there.
    """
    for hidden in list(parent.glob(".*")):
        if not hidden.name.endswith(_ENDING):
            if not keeps(hidden):
                _erase(hidden)
            continue
        directory = parent / hidden.name[1 : -len(_ENDING)]
        if directory.name not in recorded:
            give_up(directory)
        unmark(directory)


def _erase(half_written: Path) -> None:
    """Remove a directory, or a file, as a mark is while it is being written."""
    if half_written.is_dir():
        shutil.rmtree(half_written, ignore_errors=True)
    else:
        half_written.unlink(missing_ok=True)


def strays(parent: Path, recorded: Collection[str]) -> list[Path]:
    """Directories that are on no record and stay."""
    if not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if path.name not in recorded and not path.name.startswith("."))


def _mark_of(directory: Path) -> Path:
    return directory.with_name(f".{directory.name}{_ENDING}")
