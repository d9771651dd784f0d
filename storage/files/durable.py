"""Writes files that are whole or absent: written under another name, synced, renamed, and their directory synced.

Once `publish` has returned, the file or directory survives a power cut; before, nothing has its final name. `pack`
makes small records, as JSON with a format version and a checksum: `unpack` notices damage.
"""

import json
import os
import stat
import uuid
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from streamsvm.storage.errors import CorruptData, UnknownVersion


def pack(content: dict[str, Any], version: int) -> bytes:
    """The document that holds `content`, which must be valid JSON."""
    document = {"version": version, "checksum": _checksum(content), "content": content}
    return json.dumps(document, indent=1).encode()


def unpack(data: bytes, version: int, what: str, hint: str, oldest: int | None = None) -> dict[str, Any]:
    """The content of a document, checked.

    Accepts the format versions `oldest` to `version`; oldest None: `version` only. Raises CorruptData or
    UnknownVersion, whose text says `what` the document is; CorruptData carries the `hint`.
    """
    try:
        document = json.loads(data)
        stated, checksum, content = document["version"], document["checksum"], document["content"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(f"the {what} is not a document of this program", hint) from error
    if stated not in range(version if oldest is None else oldest, version + 1):
        raise UnknownVersion(f"the {what} has format version {stated}, this program reads {version}")
    if _checksum(content) != checksum:
        raise CorruptData(f"the {what} has a wrong checksum", hint)
    return content


def _checksum(content: Any) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


_SYNCED_TOGETHER = 32


def publish(staged: Path, final: Path) -> None:
    """Rename a finished file or directory to its final name, durably. Both names must be on one file system.

    An existing file of the final name is replaced; an existing directory is an error.
    """
    _sync_tree(staged)
    staged.rename(final)
    sync(final.parent)


def write_file(final: Path, chunks: Iterable[bytes]) -> None:
    """Write `chunks` to the file `final`, durably, wholly or not at all."""
    with _staged_beside(final) as staged:
        with staged.open("wb") as file:
            file.writelines(chunks)
        publish(staged, final)


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file for a user to read, not durable: it takes its name, also that of another file, when the block succeeds.

    A device or a pipe, such as /dev/stdout, is written in place. Raises OSError.
    """
    final = Path(path).resolve()
    if _is_written_in_place(Path(path)):
        with Path(path).open("wb") as file:
            yield file
        return
    with _staged_beside(final) as staged:
        with staged.open("wb") as file:
            yield file
        staged.replace(final)


def _is_written_in_place(path: Path) -> bool:
    """Whether the name is that of a device, a pipe, or a directory (which cannot be opened for writing)."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False


@contextmanager
def _staged_beside(final: Path) -> Iterator[Path]:
    """A hidden name in the same directory; a file of that name is deleted when the block fails.

    The name is random: processes in two containers that share a volume can have the same id.
    """
    staged = final.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        yield staged
    except BaseException:
        staged.unlink(missing_ok=True)
        raise


def make_directory(path: Path) -> None:
    """Make a directory and its parents, durably, unless they exist."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def _sync_tree(path: Path) -> None:
    if not path.is_dir():
        return sync(path)
    inside = list(path.rglob("*"))
    # Files are synced in parallel, since each sync waits for the disk.
    with ThreadPoolExecutor(_SYNCED_TOGETHER) as pool:
        list(pool.map(sync, [inner for inner in inside if not inner.is_dir()]))
        list(pool.map(sync, [path, *(inner for inner in inside if inner.is_dir())]))
    return None


def sync(path: Path) -> None:
    """Make the content of a file, or the names in a directory, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        # New data are seldom read at once: keep them out of the page cache.
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
