"""Copies a data directory while a service runs on it: what is on record, as of one moment, and the files of that.

The store is copied first. What it has on record was whole by then and is never written to again, but for datasets whose
rows change, which are copied once more then, and jobs that run, which go on from what they had. What is deleted before
it has been copied leaves the copy of the store, too. Starting a service on the copy is all it takes to restore it.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from streamsvm.service.errors import ServiceError, needing_space
from streamsvm.service.records.opening import ID_FILE, KINDS, MISSING, RESTORE, check_store, is_blank, read_known
from streamsvm.service.records.tokens import TOKENS_NEEDED
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.dataset import block_path
from streamsvm.storage.blocks.manifest import MANIFEST, read_manifest
from streamsvm.storage.errors import StorageError
from streamsvm.storage.files.durable import publish
from streamsvm.storage.rows import decoded_row_cache

_TRIES = 20
_PASSED_OVER = (decoded_row_cache.FILE, decoded_row_cache.INDEX, decoded_row_cache.RELEASED)


@dataclass
class BackedUp:
    """How many of each kind are in the copy, and what is on record and has no files, as paths below the directory."""

    counts: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def back_up(settings: Settings, target: Path) -> BackedUp:
    """Make the directory `target`, whole or not at all. A file of blocks or of a model is linked on the same disk.

    Raises ServiceError target_exists, out_of_space, store_missing, store_corrupt, store_foreign.
    """
    if target.exists():
        raise ServiceError("target_exists", f"{target} is there already", "Name a directory that is to be made.")
    if is_blank(settings.database):
        raise ServiceError(MISSING, f"{settings.database} is missing or empty", RESTORE)
    check_store(settings)
    target = target.absolute()
    staged = target.with_name(f".{target.name}.partial")
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True, mode=0o700)
    try:
        with needing_space():
            found = _copy(settings, staged)
            publish(staged, target)
        return found
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise


def _copy(settings: Settings, target: Path) -> BackedUp:
    copied = Settings(target)
    copied.create_directories()
    _copy_store(settings.database, copied.database)
    for name in (ID_FILE, TOKENS_NEEDED):
        if (settings.data_dir / name).exists():
            shutil.copyfile(settings.data_dir / name, target / name)
    found = BackedUp()
    with closing(sqlite3.connect(copied.database)) as store:
        for kind in KINDS:
            ids = [row[0] for row in store.execute(f"SELECT id FROM {kind} WHERE {_HAVE_FILES[kind]}")]
            gone = [each for each in ids if not _carry(settings.data_dir / kind / each, target / kind / each, kind)]
            still = read_known(settings.database).recorded
            deleted = [each for each in gone if each not in still]
            store.executemany(f"DELETE FROM {kind} WHERE id = ?", [(each,) for each in deleted])
            found.counts[kind] = len(ids) - len(deleted)
            found.missing += [f"{kind}/{each}" for each in gone if each in still and kind != "jobs"]
        store.commit()
    return found


# Of each kind those that must have them; a job that never ran has none.
_HAVE_FILES = {"datasets": "state IN ('ready', 'changing')", "models": "TRUE", "jobs": "TRUE"}


def _copy_store(database: Path, target: Path) -> None:
    """Copy the store as it is at one moment, whoever writes meanwhile."""
    with (
        closing(sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True, timeout=30)) as source,
        closing(sqlite3.connect(target)) as copied,
    ):
        source.backup(copied)
    target.chmod(0o600)


def _carry(source: Path, target: Path, kind: str) -> bool:
    """Copy a directory; whether it is there. It is begun anew if it changes meanwhile."""
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
        return source.exists()  # it begins anew
    return _copy_damaged(source, target)


def _copy_damaged(source: Path, target: Path) -> bool:
    with suppress(FileNotFoundError):
        _copy_files(source, target, lambda _: True, is_fixed=False)
        return True
    shutil.rmtree(target, ignore_errors=True)
    return False


def _manifest(directory: Path) -> bytes:
    path = directory / MANIFEST
    return path.read_bytes() if path.exists() else b""


def _wanted(source: Path, kind: str) -> Callable[[Path], bool]:
    """Which files of a directory belong to it: of a dataset no blocks that are still being added."""
    if kind != "datasets":
        return lambda _: True
    listed = {block_path(source, block.number) for block in read_manifest(source).blocks}
    return lambda path: path.parent.name != "blocks" or path in listed


def _copy_files(source: Path, target: Path, is_wanted: Callable[[Path], bool], is_fixed: bool) -> None:
    """All but hidden files, links and rows kept for the next job; raises FileNotFoundError if one goes meanwhile."""
    if not source.is_dir():
        raise FileNotFoundError(source)
    target.mkdir(parents=True)
    for path in sorted(source.rglob("*")):
        inside = path.relative_to(source)
        if path.is_symlink() or path.name in _PASSED_OVER or any(part.startswith(".") for part in inside.parts):
            continue
        if path.is_dir():
            (target / inside).mkdir(exist_ok=True)
        elif is_wanted(path):
            _copy_file(path, target / inside, is_fixed or path.suffix == ".blk")


def _copy_file(source: Path, target: Path, is_fixed: bool) -> None:
    """is_fixed: it is never written to, so that one on the same disk may be the same file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if is_fixed:
        with suppress(OSError):
            os.link(source, target)
            return
    shutil.copy2(source, target)
