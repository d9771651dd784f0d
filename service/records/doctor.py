"""Examines everything durable in a data directory without changing it; a service may run on it meanwhile."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from streamsvm.service.errors import ServiceError
from streamsvm.service.records.opening import CORRUPT, check_store, content, read_id
from streamsvm.service.records.store import Store
from streamsvm.service.records.strays import stray_paths
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.verify import faults, strays
from streamsvm.storage.errors import StorageError
from streamsvm.storage.models.model_file import read_model
from streamsvm.storage.run.checkpoint import SLOTS, read_checkpoint

STRAY = "stray"


@dataclass(frozen=True)
class Finding:
    """A fault of a dataset, model, job, checkpoint or of the store.

    kind    store, dataset, model, job or checkpoint
    name    the dataset's name; of the others, a path below the directory of their kind
    code    the error's, or `stray`: the files have no record. The service leaves them alone, except half-written ones
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
    """Yield all faults of a data directory. Raises ServiceError `no_data_dir` if there is none."""
    _refuse_none(settings)
    try:
        check_store(settings)
        store = _open(settings)
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
    """Yield all faults of a dataset. Raises ServiceError `unknown_dataset`, `not_ready`."""
    _refuse_none(settings)
    check_store(settings)
    record = Store(settings.database).dataset(name)
    if record["state"] != "ready":
        raise ServiceError("not_ready", f"dataset {name} is not ready: {record['state']}")
    yield from _faults(settings, record["id"], name)


def _refuse_none(settings: Settings) -> None:
    if not settings.database.exists() and not content(settings) and read_id(settings) is None:
        raise ServiceError("no_data_dir", "this is no data directory of a service", "Say where it is with --data-dir.")


def _open(settings: Settings) -> Store:
    with sqlite3.connect(f"file:{settings.database}?mode=ro", uri=True) as connection:
        (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    connection.close()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)
    return Store(settings.database)


def _datasets(settings: Settings, store: Store) -> Iterator[Finding]:
    records = store.datasets()
    for record in records:
        if record["state"] == "ready":
            yield from _faults(settings, record["id"], record["name"])
    yield from _strays(settings.datasets, {record["id"] for record in records}, "dataset")


def _faults(settings: Settings, dataset_id: str, name: str) -> Iterator[Finding]:
    directory = settings.datasets / dataset_id
    findings = [_finding("dataset", name, error) for error in faults(directory)]
    yield from findings or (_stray("dataset", path.relative_to(settings.datasets)) for path in strays(directory))


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
