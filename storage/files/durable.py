"""The one way a durable file comes into being: written beside its place, synced, renamed, its directory synced.

After `publish` returns, the file or directory survives a power cut whole; before it, nothing of it can be seen under
its final name.
"""

import os
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_SYNCED_TOGETHER = 32


def publish(staged: Path, final: Path) -> None:
    """Move a finished file or directory to its final name, durably. Both must lie on one file system.

    A directory must not exist yet under the final name; a file is replaced.
    """
    _sync_tree(staged)
    staged.rename(final)
    sync(final.parent)


def write_file(final: Path, chunks: Iterable[bytes]) -> None:
    """Write `chunks` to `final` as a whole or not at all."""
    staged = staged_beside(final)
    try:
        with staged.open("wb") as file:
            file.writelines(chunks)
        publish(staged, final)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise


def staged_beside(final: Path) -> Path:
    """A hidden name that nobody else takes: in two containers that share a volume processes have the same ids."""
    return final.with_name(f".{final.name}.{uuid.uuid4().hex}.tmp")


def make_directory(path: Path) -> None:
    """Make a directory and those above it, durably; they may be there."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def _sync_tree(path: Path) -> None:
    if not path.is_dir():
        return sync(path)
    inside = list(path.rglob("*"))
    # One after the other, each file would wait for the disk on its own.
    with ThreadPoolExecutor(_SYNCED_TOGETHER) as pool:
        list(pool.map(sync, [inner for inner in inside if not inner.is_dir()]))
        list(pool.map(sync, [path, *(inner for inner in inside if inner.is_dir())]))
    return None


def sync(path: Path) -> None:
    """Have what was written to a file, or the names in a directory, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        # Data just written is seldom read at once: do not let it fill the page cache.
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
