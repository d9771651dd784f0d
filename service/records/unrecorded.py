"""Marks directories that may be removed if they have no record; no other directory is ever removed.

A missing record alone is no reason to remove files: the store may be an older copy, or another directory's. So code
that makes a directory before its record, or deletes a record before the directory, puts a file `.NAME.unrecorded`
beside the directory.
"""

import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from streamsvm.storage.files.durable import write_file

_ENDING = ".unrecorded"


def mark(directory: Path) -> None:
    """Mark a directory: the next start of the service removes it unless it is recorded by then."""
    write_file(_mark_of(directory), [])


@contextmanager
def unrecording(directory: Path) -> Iterator[None]:
    """Mark a directory while the `with` statement deletes its record; after an error there, remove the mark."""
    with suppress(OSError):  # the disk may be full: then deleting must still work, to free space
        mark(directory)
    try:
        yield
    except BaseException:
        unmark(directory)
        raise


def unmark(directory: Path) -> None:
    """Remove a directory's mark."""
    _mark_of(directory).unlink(missing_ok=True)


def is_marked(directory: Path) -> bool:
    """Whether a directory is marked: it has not been recorded yet, or its deletion has begun."""
    return _mark_of(directory).exists()


def remove(directory: Path) -> None:
    """Remove a directory, and then its mark."""
    shutil.rmtree(directory, ignore_errors=True)
    unmark(directory)


def sweep(
    parent: Path,
    recorded: Collection[str],
    give_up: Callable[[Path], object] = remove,
    keeps: Callable[[Path], bool] = lambda _: False,
) -> None:
    """Clean up a directory of datasets, models or jobs, at a time when no process writes there.

    Calls `give_up` on marked directories that are not recorded. Removes half-written files and directories, which are
    hidden; a hidden one stays if `keeps` returns True for it.
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
    """Remove a half-written directory, or file (such as a mark)."""
    if half_written.is_dir():
        shutil.rmtree(half_written, ignore_errors=True)
    else:
        half_written.unlink(missing_ok=True)


def strays(parent: Path, recorded: Collection[str]) -> list[Path]:
    """Return the directories in `parent` without a record, except half-written (hidden) ones."""
    if not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if path.name not in recorded and not path.name.startswith("."))


def _mark_of(directory: Path) -> Path:
    return directory.with_name(f".{directory.name}{_ENDING}")
