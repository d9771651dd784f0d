"""Opens the store of a data directory, if that is the one that knows what is in it.

A new store beside data would say that there are none, need no token, and give away names that are taken. So a directory
and its store have the same id, `streamsvm.id` and the table `directory`, from the first start on. Those of an older
version have none: there the store has to know something of what is in the directory.
"""

import errno
import logging
import os
import re
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
_ID_TABLE = "directory"  # older versions had none
_SCHEMA = f"CREATE TABLE IF NOT EXISTS {_ID_TABLE} (id TEXT NOT NULL)"
ID_FILE = "streamsvm.id"
KINDS = ("datasets", "models", "jobs")
_ID = re.compile(rb"[0-9a-f]{32}")
_ENDINGS = ("-wal", "-shm", "-journal")
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
        if settings.database.exists() and not os.access(settings.database, os.W_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(settings.database))
        store = Store(settings.database)
        give_id(settings)
    except (OSError, sqlite3.Error) as error:
        raise unusable(settings.data_dir, error) from error
    return store


def check_store(settings: Settings) -> None:
    """Raise ServiceError store_missing, store_foreign or store_corrupt if this store must not be used."""
    # The store is looked at last: another process may be making it.
    directory_id, there = read_id(settings), content(settings)
    _check_files(settings.database)
    if is_blank(settings.database):
        if directory_id or there:
            told = f"there are {len(there)} datasets, models and jobs" if there else "the directory has been used"
            raise ServiceError(MISSING, f"{settings.database} is missing or empty, but {told}", RESTORE)
        return
    check_sound(settings.database)
    known = read_known(settings.database)
    if is_foreign(known, directory_id, there):
        raise ServiceError(FOREIGN, f"{settings.database} is not the store of what is in {settings.data_dir}", RESTORE)


def _check_files(database: Path) -> None:
    """Raise ServiceError store_corrupt if there is something in place of the store's files."""
    for path in (database, *(database.with_name(f"{database.name}{ending}") for ending in _ENDINGS)):
        if path.exists() and not path.is_file():
            raise ServiceError(CORRUPT, f"{path} is damaged: it is no file", RESTORE)


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
    """The id of the data directory, None if it has none, or what is there is none."""
    try:
        found = (settings.data_dir / ID_FILE).read_bytes().strip()
    except FileNotFoundError:
        return None
    return found.decode() if _ID.fullmatch(found) else None


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
    """Nothing is changed, whatever version it has. Raises ServiceError store_corrupt if its tables are others."""
    try:
        return _read_known(database)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        raise ServiceError(CORRUPT, f"{database} is no store of this program: {error}", RESTORE) from error


def _read_known(database: Path) -> Known:
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True, timeout=30)) as connection:
        is_new = connection.execute("PRAGMA user_version").fetchone()[0] == 0
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

        def ids(table: str, which: str = "TRUE") -> list[str]:
            if table not in tables and (is_new or table == _ID_TABLE):
                return []
            found = connection.execute(f"SELECT id FROM {table} WHERE {which}")
            return [found_id for (found_id,) in found]

        lasting = (*ids("models"), *ids("datasets", "state IN ('ready', 'changing')"))
        recorded = (*lasting, *ids("datasets"), *ids("jobs"))
        return Known(next(iter(ids(_ID_TABLE)), None), frozenset(recorded), frozenset(lasting))


def unusable(data_dir: Path, error: Exception) -> ServiceError:
    """A file system that is full, or may not be written to."""
    reason, named = getattr(error, "strerror", None) or str(error), getattr(error, "filename", None)
    where = f"{named}: " if named and Path(os.fsdecode(named)) != data_dir else ""
    hint = "It has to be a directory on a disk of this machine, with room, that this user may write to."
    return ServiceError("data_dir_unusable", f"the data directory {data_dir} cannot be used: {where}{reason}", hint)


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
