"""Finds datasets, models and jobs that have files but no record; records them, or moves them aside, on request.

Nothing here removes files.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from streamsvm.service.errors import ServiceError
from streamsvm.service.processes.health import lock, unlock
from streamsvm.service.records.opening import KINDS, check_sound, give_id, is_blank, open_store, read_contents
from streamsvm.service.records.stamps import rfc3339
from streamsvm.service.records.store import Store
from streamsvm.service.records.unrecorded import strays
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.errors import StorageError
from streamsvm.storage.models.model_file import read_about

ASIDE = "aside"
_SHOWN = 5


def stray_paths(settings: Settings) -> list[Path]:
    """The directories without a record, as paths below the data directory."""
    database = settings.database
    recorded = frozenset() if is_blank(database) else read_contents(database).recorded
    paths = [path for kind in KINDS for path in strays(settings.data_dir / kind, recorded)]
    return [path.relative_to(settings.data_dir) for path in paths]


def put_aside(settings: Settings) -> list[Path]:
    """Move the directories without a record below `aside`; returns their new paths.

    A directory that cannot be moved does not keep the others from being moved.
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
    """Move a directory to the target, or beside a directory that has been put aside there before."""
    target.parent.mkdir(parents=True, exist_ok=True)
    free = next(each for each in _names(target) if not os.path.lexists(each))
    return path.rename(free)


def _names(target: Path) -> Iterator[Path]:
    yield target
    yield from (target.with_name(f"{target.name}.{number}") for number in count(2))


def adopt(settings: Settings) -> list[Path]:
    """Record whole models and datasets that have no record, in a new store if there is none; returns their paths.

    A dataset gets the name that a model has for it, else its id. Jobs cannot be recorded: their fields were in the
    store only. Raises ServiceError already_running, and, if there is a store, what `open_store` raises.
    """
    with _alone(settings):
        store = _store(settings)
        names: dict[str, str] = {}
        paths = stray_paths(settings)
        for model in strays(settings.models, ()):
            with suppress(StorageError, OSError, KeyError, TypeError):
                dataset = read_about(model)["dataset"]
                names[dataset["uid"]] = dataset["name"]
        return [path for path in paths if _TAKE[path.parts[0]](store, settings.data_dir / path, names)]


def _store(settings: Settings) -> Store:
    if not is_blank(settings.database):
        return open_store(settings)
    store = Store(settings.database)
    give_id(settings)
    check_sound(settings.database)
    return store


def _take_model(store: Store, directory: Path, _names: dict[str, str]) -> bool:
    with suppress(StorageError, OSError):
        read_about(directory)
        store.adopt_model(directory.name, _made(directory))
        return True
    return False


def _take_dataset(store: Store, directory: Path, names: dict[str, str]) -> bool:
    with suppress(StorageError, OSError):
        name = names.get(read_manifest(directory).uid, directory.name.lower())
        taken = {record["name"] for record in store.datasets()}
        store.adopt_dataset(directory.name, directory.name.lower() if name in taken else name, _made(directory))
        return True
    return False


def _made(directory: Path) -> str:
    return rfc3339(datetime.fromtimestamp(directory.stat().st_mtime, UTC))


_TAKE: dict[str, Callable[[Store, Path, dict[str, str]], bool]] = {
    "datasets": _take_dataset,
    "models": _take_model,
    "jobs": lambda *_: False,
}


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Hold the locks of the data directory, so that no service and no worker runs on it."""
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
