"""Copies a data directory while a service runs on it: the records of one moment, and their files.

The store is copied first. The files of recorded models and datasets are complete by then and do not change, with two
exceptions: a dataset whose rows change during the copy is copied again, and a running job is copied as far as it has
come. If a dataset or model is deleted before its files have been copied, its record is deleted from the copy, too. To
restore, start a service on the copy.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from streamsvm.service.errors import ServiceError, needing_space
from streamsvm.service.records.opening import ID_FILE, KINDS, MISSING, RESTORE, check_store, is_blank, read_contents
from streamsvm.service.records.tokens import TOKENS_NEEDED
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.dataset import OF_EARLIER_VERSIONS, block_path
from streamsvm.storage.blocks.manifest import MANIFEST, read_manifest
from streamsvm.storage.errors import StorageError
from streamsvm.storage.files.durable import publish

_TRIES = 20


@dataclass
class BackedUp:
    """`counts`: kind ("jobs") -> number copied; `missing`: paths of recorded datasets and models without files."""

    counts: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def back_up(settings: Settings, target: Path) -> BackedUp:
    """Copy the data directory to a new one, `target`, whole or not at all; hard-link blocks and models if possible.

    Raises ServiceError target_exists, out_of_space, store_missing, store_corrupt, store_foreign.
    """
    if target.exists():
        raise ServiceError("target_exists", f"{target} exists already", "Name a directory that does not exist yet.")
    if is_blank(settings.database):
        raise ServiceError(MISSING, f"{settings.database} is missing or empty", RESTORE)
    check_store(settings)
    target = target.absolute()
    staged = target.with_name(f".{target.name}.partial")
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True, mode=0o700)
    try:
        with needing_space():
            copied = _copy(settings, staged)
            publish(staged, target)
        return copied
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise


def _copy(settings: Settings, target: Path) -> BackedUp:
    copied = Settings(target)
    copied.create_directories()
    # SQLite copies the store as of one moment, even if other processes write to it meanwhile.
    uri = f"{settings.database.as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, timeout=30)) as source, closing(sqlite3.connect(copied.database)) as to:
        source.backup(to)
    copied.database.chmod(0o600)
    for name in (ID_FILE, TOKENS_NEEDED):
        if (settings.data_dir / name).exists():
            shutil.copyfile(settings.data_dir / name, target / name)
    result = BackedUp()
    with closing(sqlite3.connect(copied.database)) as store:
        for kind in KINDS:
            ids = [row[0] for row in store.execute(f"SELECT id FROM {kind} WHERE {_HAVE_FILES[kind]}")]
            gone = [each for each in ids if not _carry(settings.data_dir / kind / each, target / kind / each, kind)]
            recorded = read_contents(settings.database).recorded
            deleted = [each for each in gone if each not in recorded]
            store.executemany(f"DELETE FROM {kind} WHERE id = ?", [(each,) for each in deleted])
            result.counts[kind] = len(ids) - len(deleted)
            result.missing += [f"{kind}/{each}" for each in gone if each in recorded and kind != "jobs"]
        store.commit()
    return result


# kind -> condition on the records whose files are copied; a job that never ran has no files.
_HAVE_FILES = {"datasets": "state IN ('ready', 'changing')", "models": "TRUE", "jobs": "TRUE"}


def _carry(source: Path, target: Path, kind: str) -> bool:
    """Copy a directory, again if its manifest changes meanwhile; return whether the directory exists."""
    for _ in range(_TRIES):
        with suppress(FileNotFoundError, StorageError):
            before = _manifest(source)
            _copy_files(source, target, _wanted(source, kind), is_fixed=kind == "models")
            if _manifest(source) == before:
                return True
        shutil.rmtree(target, ignore_errors=True)
        if not source.exists():
            break
    if kind == "jobs":
        return source.exists()  # without files, the job begins again
    # The directory cannot be read as a dataset or model: all of its files are copied.
    with suppress(FileNotFoundError):
        _copy_files(source, target, lambda _: True, is_fixed=False)
        return True
    shutil.rmtree(target, ignore_errors=True)
    return False


def _manifest(directory: Path) -> bytes:
    path = directory / MANIFEST
    return path.read_bytes() if path.exists() else b""


def _wanted(source: Path, kind: str) -> Callable[[Path], bool]:
    """Return a function that says whether to copy a file: not a block that the dataset's manifest does not list."""
    if kind != "datasets":
        return lambda _: True
    listed = {block_path(source, block.number) for block in read_manifest(source).blocks}
    return lambda path: path.parent.name != "blocks" or path in listed


def _copy_files(source: Path, target: Path, is_wanted: Callable[[Path], bool], is_fixed: bool) -> None:
    """Copy a directory, except hidden files, links and cached rows. Raises FileNotFoundError if a file vanishes."""
    if not source.is_dir():
        raise FileNotFoundError(source)
    target.mkdir(parents=True)
    for path in sorted(source.rglob("*")):
        inside = path.relative_to(source)
        if path.is_symlink() or path.name in OF_EARLIER_VERSIONS or any(part.startswith(".") for part in inside.parts):
            continue
        if path.is_dir():
            (target / inside).mkdir(exist_ok=True)
        elif is_wanted(path):
            _copy_file(path, target / inside, is_fixed or path.suffix == ".blk")


def _copy_file(source: Path, target: Path, is_fixed: bool) -> None:
    """Copy a file; if `is_fixed` (no process writes to it) and the target is on the same disk, hard-link it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if is_fixed:
        with suppress(OSError):
            os.link(source, target)
            return
    shutil.copy2(source, target)
