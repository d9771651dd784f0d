"""Examines everything durable in a data directory, and copies it; a service may be using the directory meanwhile.

Datasets, models and jobs that have files but no record are recorded, or moved aside, on request. Nothing here removes
files.

A copy has the records of one moment, and their files. The store is copied first. The files of recorded models and
datasets are complete by then and do not change, with two exceptions: a dataset whose rows change during the copy is
copied again, and a running job is copied as far as it has come. If a dataset or model is deleted before its files have
been copied, its record is deleted from the copy, too. To restore, start a service on the copy.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path

from streamsvm.service.errors import ServiceError, needing_space
from streamsvm.service.processes.health import lock, unlock
from streamsvm.service.records.database import rfc3339
from streamsvm.service.records.opening import (
    CORRUPT,
    ID_FILE,
    KINDS,
    MISSING,
    RESTORE,
    check_sound,
    check_store,
    content,
    give_id,
    is_blank,
    open_store,
    read_contents,
    read_id,
    stray_paths,
)
from streamsvm.service.records.store import Store
from streamsvm.service.records.tokens import TOKENS_NEEDED
from streamsvm.service.records.unrecorded import strays
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.dataset import OF_EARLIER_VERSIONS, block_path, faults
from streamsvm.storage.blocks.dataset import strays as stray_files
from streamsvm.storage.blocks.manifest import MANIFEST, read_manifest
from streamsvm.storage.errors import StorageError
from streamsvm.storage.files.durable import publish
from streamsvm.storage.models.model_file import read_about, read_model
from streamsvm.storage.run.checkpoint import SLOTS, read_checkpoint

STRAY = "stray"
ASIDE = "aside"
_SHOWN = 5


@dataclass(frozen=True)
class Finding:
    """A fault of a dataset, model, job, checkpoint or of the store.

    kind    store, dataset, model, job or checkpoint
    name    the dataset's name; for other kinds, a path below the directory of the kind
    code    code of an error, or `stray`: the files have no record. The service removes only half-written strays
    """

    kind: str
    name: str
    code: str
    message: str

    @property
    def is_damage(self) -> bool:
        """Whether something that was written is damaged or missing."""
        return self.code != STRAY


def examine(settings: Settings) -> Iterator[Finding]:
    """Yield all faults of a data directory. Raises ServiceError no_data_dir if the directory is none of a service."""
    _refuse_none(settings)
    try:
        check_store(settings)
        check_sound(settings.database, "integrity_check")
        store = Store(settings.database)
    except ServiceError as error:
        yield Finding("store", settings.database.name, error.code, error.message)
        if error.code != CORRUPT:
            yield from (_stray(path.parts[0][:-1], Path(path.name)) for path in stray_paths(settings))
        return
    except sqlite3.Error as error:
        yield Finding("store", settings.database.name, CORRUPT, str(error))
        return
    yield from _datasets(settings, store)
    yield from _models(settings, store)
    yield from _checkpoints(settings, store)


def examine_dataset(settings: Settings, name: str) -> Iterator[Finding]:
    """Yield all faults of a dataset. Raises ServiceError no_data_dir, unknown_dataset, not_ready."""
    _refuse_none(settings)
    check_store(settings)
    record = Store(settings.database).dataset(name)
    if record["state"] != "ready":
        raise ServiceError("not_ready", f"dataset {name} is not ready: {record['state']}")
    yield from _faults(settings, record["id"], name)


def _refuse_none(settings: Settings) -> None:
    if not settings.database.exists() and not content(settings) and read_id(settings) is None:
        raise ServiceError("no_data_dir", "this is no data directory of a service", "Say where it is with --data-dir.")


def _datasets(settings: Settings, store: Store) -> Iterator[Finding]:
    records = store.datasets()
    for record in records:
        if record["state"] == "ready":
            yield from _faults(settings, record["id"], record["name"])
    yield from _strays(settings.datasets, {record["id"] for record in records}, "dataset")


def _faults(settings: Settings, dataset_id: str, name: str) -> Iterator[Finding]:
    directory = settings.datasets / dataset_id
    findings = [_finding("dataset", name, error) for error in faults(directory)]
    yield from findings or (_stray("dataset", path.relative_to(settings.datasets)) for path in stray_files(directory))


def _models(settings: Settings, store: Store) -> Iterator[Finding]:
    recorded = [record["id"] for record in store.models()]
    for model_id in recorded:
        try:
            read_model(settings.models / model_id)
        except (StorageError, OSError) as error:
            yield _finding("model", model_id, error)
    yield from _strays(settings.models, set(recorded), "model")


def _checkpoints(settings: Settings, store: Store) -> Iterator[Finding]:
    recorded = set(store.job_states())
    places = [f"job_*/{of_lane}{slot}" for of_lane in ("", "lanes/*/") for slot in SLOTS]
    for path in sorted(path for place in places for path in settings.jobs.glob(place)):
        try:
            read_checkpoint(path)
        except (StorageError, OSError) as error:
            yield _finding("checkpoint", str(path.relative_to(settings.jobs)), error)
    yield from _strays(settings.jobs, recorded, "job")


def _strays(directory: Path, recorded: set[str], kind: str) -> Iterator[Finding]:
    for path in sorted(directory.iterdir()):
        if path.name not in recorded:
            yield _stray(kind, Path(path.name))


def _stray(kind: str, path: Path) -> Finding:
    return Finding(kind, str(path), STRAY, "belongs to nothing that is recorded")


def _finding(kind: str, name: str, error: Exception) -> Finding:
    if isinstance(error, StorageError):
        return Finding(kind, name, error.code, error.message)
    return Finding(kind, name, "io_error", getattr(error, "strerror", None) or type(error).__name__)


def put_aside(settings: Settings) -> list[Path]:
    """Move the directories that have no record to the directory `aside`; return their new paths.

    If a directory cannot be moved, the others are moved still.
    Raises ServiceError already_running, not_put_aside, and what `open_store` raises.
    """
    moved, failed = [], []
    with _alone(settings):
        open_store(settings)
        for path in stray_paths(settings):
            try:
                moved.append(_move(settings.data_dir / path, settings.data_dir / ASIDE / path))
            except OSError as error:
                where = "" if error.filename2 else f"{error.filename}: "
                failed.append(f"{path} ({where}{error.strerror})")
    if failed:
        text = f"{len(moved)} are put aside, {len(failed)} are not: {', '.join(failed[:_SHOWN])}"
        raise ServiceError("not_put_aside", text, "Move them to another place while no service runs.")
    return moved


def _move(path: Path, target: Path) -> Path:
    """Move a directory to the target; if that exists, append a number to its name. Return the new path."""
    target.parent.mkdir(parents=True, exist_ok=True)
    others = (target.with_name(f"{target.name}.{number}") for number in count(2))
    free = next(each for each in chain([target], others) if not os.path.lexists(each))
    return path.rename(free)


def adopt(settings: Settings) -> list[Path]:
    """Record undamaged models and datasets that have no record, in a new store if there is none; return their paths.

    A dataset gets the name that the file of a model has for it, else its id. Jobs cannot be recorded: their fields were
    only in the store. Raises ServiceError already_running, and, if there is a store, what `open_store` raises.
    """
    with _alone(settings):
        if is_blank(settings.database):
            store = Store(settings.database)
            give_id(settings)
            check_sound(settings.database)
        else:
            store = open_store(settings)
        names: dict[str, str] = {}
        paths = stray_paths(settings)
        for model in strays(settings.models, ()):
            with suppress(StorageError, OSError, KeyError, TypeError):
                dataset = read_about(model)["dataset"]
                names[dataset["uid"]] = dataset["name"]
        return [path for path in paths if _take(store, settings.data_dir / path, names)]


def _take(store: Store, directory: Path, names: dict[str, str]) -> bool:
    """Record a model or dataset if it is undamaged; return whether it was. `names`: uid -> name of a dataset."""
    kind, own = directory.parent.name, directory.name
    with suppress(StorageError, OSError):
        made = rfc3339(datetime.fromtimestamp(directory.stat().st_mtime, UTC))
        if kind == "models":
            read_about(directory)
            store.adopt_model(own, made)
            return True
        if kind == "datasets":
            name = names.get(read_manifest(directory).uid, own.lower())
            taken = {record["name"] for record in store.datasets()}
            store.adopt_dataset(own, own.lower() if name in taken else name, made)
            return True
    return False


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Hold the locks of the data directory in the `with` statement, so that no service and no worker uses it."""
    held: list[int] = []
    try:
        for kind in ("api", "worker"):
            held.append(lock(settings.data_dir, kind))
        yield
    except ServiceError as error:
        if error.code != "already_running":
            raise
        raise ServiceError(error.code, error.message, "Stop the service first.") from None
    finally:
        for descriptor in held:
            unlock(descriptor)


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
