"""Opens the store of a data directory, if that is the one that knows what is in it.

A new store beside data would say that there are none, need no token, and give away names that are taken. So a directory
and its store have the same id, `streamsvm.id` and the table `directory`, from the first start on. Those of an older
version have none: there the store has to know something of what is in the directory.
"""

import logging
import sqlite3
import uuid
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from streamsvm.service.errors import ServiceError
from streamsvm.service.records.database import DAMAGED, Database
from streamsvm.service.records.store import Store
from streamsvm.service.records.unrecorded import strays
from streamsvm.service.settings import Settings
from streamsvm.storage.files.durable import write_file

MISSING, FOREIGN, CORRUPT = "store_missing", "store_foreign", "store_corrupt"
RESTORE = (
    "Stop the service and put the right one, or a backup of it, in its place, without files of its name that end in "
    "-wal, -shm or -journal. If there is none, move it away and run streamsvm doctor --adopt."
)
_SCHEMA = "CREATE TABLE IF NOT EXISTS directory (id TEXT NOT NULL)"
ID_FILE = "streamsvm.id"
KINDS = ("datasets", "models", "jobs")
_log = logging.getLogger("streamsvm.store")


@dataclass(frozen=True)
class Known:
    """The contents of a store.

    id        of its directory, None if it has been used by older versions only
    recorded  ids of datasets, models and jobs
    lasting   those of them that must have files: datasets that are ready, and models
    """

    id: str | None
    recorded: frozenset[str]
    lasting: frozenset[str]


def open_store(settings: Settings) -> Store:
    """The store, a new one in a new directory.

    Raises ServiceError store_missing, store_foreign, store_corrupt, data_dir_unusable, unknown_version; nothing is
    changed then.
    """
    try:
        settings.create_directories()
        check_store(settings)
        store = Store(settings.database)
        give_id(settings)
    except (OSError, sqlite3.Error) as error:
        raise unusable(settings, error) from error
    return store


def check_store(settings: Settings) -> None:
    """Raise ServiceError store_missing, store_foreign or store_corrupt if this store must not be used."""
    # The store is looked at last: another process may be making it.
    directory_id, there = read_id(settings), content(settings)
    if is_blank(settings.database):
        if directory_id or there:
            told = f"there are {len(there)} datasets, models and jobs" if there else "the directory has been used"
            raise ServiceError(MISSING, f"{settings.database} is missing or empty, but {told}", RESTORE)
        return
    check_sound(settings.database)
    known = read_known(settings.database)
    if is_foreign(known, directory_id, there):
        raise ServiceError(FOREIGN, f"{settings.database} is not the store of what is in {settings.data_dir}", RESTORE)


def is_foreign(known: Known, directory_id: str | None, there: frozenset[str]) -> bool:
    """Whether a store is another directory's, which has that id, and these datasets, models and jobs."""
    if known.id and directory_id:
        return known.id != directory_id
    if known.recorded & there:
        return False
    return bool(there or known.lasting or (directory_id and not known.id))


def is_blank(database: Path) -> bool:
    """Whether there is no store."""
    return not database.exists() or database.stat().st_size == 0


def read_id(settings: Settings) -> str | None:
    """The id of the data directory, None if it has none."""
    try:
        return (settings.data_dir / ID_FILE).read_text().strip() or None
    except FileNotFoundError:
        return None


def content(settings: Settings) -> frozenset[str]:
    """Ids of datasets, models and jobs that have files, on record or not."""
    return frozenset(path.name for kind in KINDS for path in strays(settings.data_dir / kind, ()))


def check_sound(database: Path) -> None:
    """Raise ServiceError store_corrupt if it is damaged: all of it is looked at."""
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True, timeout=30)) as connection:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if (error.sqlite_errorcode & 0xFF) not in DAMAGED:
            raise
        found = str(error)
    if found != "ok":
        raise ServiceError(CORRUPT, f"{database} is damaged: {' '.join(found.split())}", RESTORE)


def read_known(database: Path) -> Known:
    """Nothing is changed, whatever version it has."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True, timeout=30)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

        def ids(table: str, which: str = "TRUE") -> list[str]:
            found = connection.execute(f"SELECT id FROM {table} WHERE {which}") if table in tables else ()
            return [found_id for (found_id,) in found]

        lasting = (*ids("models"), *ids("datasets", "state IN ('ready', 'changing')"))
        recorded = (*lasting, *ids("datasets"), *ids("jobs"))
        return Known(next(iter(ids("directory")), None), frozenset(recorded), frozenset(lasting))


def unusable(settings: Settings, error: Exception) -> ServiceError:
    """A file system that is full, or may not be written to."""
    reason = getattr(error, "strerror", None) or str(error)
    hint = "It has to be a directory on a disk of this machine, with room, that this user may write to."
    return ServiceError("data_dir_unusable", f"the data directory {settings.data_dir} cannot be used: {reason}", hint)


def give_id(settings: Settings) -> None:
    """See that a directory and its store have the same id."""
    database = Database(settings.database)
    with database.write() as connection:
        connection.execute(_SCHEMA)
        found = connection.execute("SELECT id FROM directory").fetchone()
        own = found["id"] if found else read_id(settings) or uuid.uuid4().hex
        if not found:
            connection.execute("INSERT INTO directory VALUES (?)", (own,))
    with database.write():  # one process at a time, and after the store has it
        if read_id(settings) is None:
            write_file(settings.data_dir / ID_FILE, [f"{own}\n".encode()])


def tell_strays(settings: Settings) -> None:
    """Say in the log what is on no record and stays."""
    recorded = read_known(settings.database).recorded
    found = [f"{kind}/{path.name}" for kind in KINDS for path in strays(settings.data_dir / kind, recorded)]
    if found:
        some = ", ".join(found[:5])
        _log.warning(
            "%d datasets, models or jobs are on no record and stay: %s; streamsvm doctor names all", len(found), some
        )
