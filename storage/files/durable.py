"""Writes files that are complete or absent: each is written under another name, synced and renamed; then its directory.

When `publish` has returned, the file or directory survives a power cut; before that, nothing has the final name. `pack`
makes small documents, as JSON with a format version and a checksum, by which `unpack` detects damage.
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
    """Return `content`, which must be valid JSON, as the bytes of a document with a format version and a checksum."""
    document = {"version": version, "checksum": _checksum(content), "content": content}
    return json.dumps(document, indent=1).encode()


def unpack(data: bytes, version: int, what: str, hint: str, oldest: int | None = None) -> dict[str, Any]:
    """Return the content of a document from `pack`, after checking its version and checksum.

    Accepts the format versions `oldest` to `version`; oldest None: `version` only. Raises CorruptData, with `hint`, or
    UnknownVersion. `what` names the document in their messages.
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
    """Rename the complete file or directory `staged` to `final`, durably. Both must be on one file system.

    An existing file `final` is replaced; for an existing directory `final`, it raises OSError.
    """
    _sync_tree(staged)
    staged.rename(final)
    sync(final.parent)


def write_file(final: Path, chunks: Iterable[bytes]) -> None:
    """Write `chunks` to the file `final`, durably; the file is then complete or unchanged."""
    with _staged_beside(final) as staged:
        with staged.open("wb") as file:
            file.writelines(chunks)
        publish(staged, final)


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file to write, not durably: it appears at `path`, and replaces an older file, when the block succeeds.

    Writes directly to a device or a pipe, such as /dev/stdout. Raises OSError if the file cannot be written.
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
    """Whether `path` is a device, a pipe, or a directory (which cannot be opened for writing)."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False


@contextmanager
def _staged_beside(final: Path) -> Iterator[Path]:
    """Choose a hidden path in the directory of `final`; if the block fails, delete the file at this path.

    The name is random, since processes in two containers that share a volume can have equal process ids.
    """
    staged = final.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        yield staged
    except BaseException:
        staged.unlink(missing_ok=True)
        raise


def make_directory(path: Path) -> None:
    """Make a directory and its parents, durably; do nothing for directories that exist."""
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
    """Sync a file's content, or a directory's names, to the disk, so that it survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        # Drop the new data from the page cache: they are seldom read soon.
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
