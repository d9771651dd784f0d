"""Examines everything durable in a data directory; a service may be using the directory meanwhile.

Datasets, models and jobs that have files but no record are recorded, or moved aside, on request. Nothing here removes
files.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path

from streamsvm.service.errors import ServiceError
from streamsvm.service.processes.health import lock, unlock
from streamsvm.service.records.database import rfc3339
from streamsvm.service.records.opening import (
    CORRUPT,
    check_sound,
    check_store,
    content,
    give_id,
    is_blank,
    open_store,
    read_id,
    stray_paths,
)
from streamsvm.service.records.store import Store
from streamsvm.service.records.unrecorded import strays
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.dataset import faults
from streamsvm.storage.blocks.dataset import strays as stray_files
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.errors import StorageError
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
