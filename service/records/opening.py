"""Opens the store of a data directory, after checking that it belongs to that directory.

A new, empty store beside existing data would hide the data, need no token, and accept names that are taken. So from the
first start on, a directory and its store have the same id, in the file `streamsvm.id` and the table `directory`.
Directories of older versions have no id: their store must have a record of some dataset, model or job in the directory.
"""

import errno
import logging
import os
import re
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from streamsvm.service.errors import ServiceError
from streamsvm.service.records.database import DAMAGED, Database, replaced, telling_damage
from streamsvm.service.records.store import Store
from streamsvm.service.records.table import fault_of
from streamsvm.service.records.tokens import SCHEMA as TOKENS_SCHEMA
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
_APART = _SCHEMA, TOKENS_SCHEMA  # SQL of tables that a store of any version may have
ID_FILE = "streamsvm.id"
KINDS = ("datasets", "models", "jobs")
_ID = re.compile(rb"[0-9a-f]{32}")
_ENDINGS = ("-wal", "-shm", "-journal")
_RECHECK_SECONDS = 30.0
_log = logging.getLogger("streamsvm.store")


@dataclass(frozen=True)
class StoreContents:
    """The ids in a store.

    id        id of the data directory, None if only older versions have used the store
    recorded  ids of all datasets, models and jobs
    lasting   ids of models, and of datasets with rows, which must have files
    """

    id: str | None
    recorded: frozenset[str]
    lasting: frozenset[str]


def open_store(settings: Settings) -> Store:
    """Open the store of a data directory; in a new directory, make a store.

    Raises ServiceError store_missing, store_foreign, store_corrupt, data_dir_unusable, unknown_version; the store is
    unchanged then.
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
    # The store is read last: if another process is just making it, it already has the id and records found before.
    directory_id, ids = read_id(settings), content(settings)
    for path in (settings.database.with_name(f"{settings.database.name}{ending}") for ending in ("", *_ENDINGS)):
        if path.exists() and not path.is_file():
            raise ServiceError(CORRUPT, f"{path} is damaged: it is no file", RESTORE)
    if is_blank(settings.database):
        if directory_id or ids:
            why = f"there are {len(ids)} datasets, models and jobs" if ids else "the directory has been used"
            raise ServiceError(MISSING, f"{settings.database} is missing or empty, but {why}", RESTORE)
        return
    check_sound(settings.database)
    if is_foreign(read_contents(settings.database), directory_id, ids):
        raise ServiceError(FOREIGN, f"{settings.database} is not the store of what is in {settings.data_dir}", RESTORE)


def is_foreign(store: StoreContents, directory_id: str | None, ids: frozenset[str]) -> bool:
    """Whether a store belongs to another directory than one with the id `directory_id` and files of these `ids`."""
    if store.id and directory_id:
        return store.id != directory_id
    if store.recorded & ids:
        return False
    return bool(ids or store.lasting or (directory_id and not store.id))


def is_blank(database: Path) -> bool:
    """Whether the store is missing or an empty file."""
    return not database.exists() or database.stat().st_size == 0


def read_id(settings: Settings) -> str | None:
    """Read the id of the data directory; return None if the id's file is missing or contains no id."""
    try:
        text = (settings.data_dir / ID_FILE).read_bytes().strip()
    except FileNotFoundError:
        return None
    return text.decode() if _ID.fullmatch(text) else None


def content(settings: Settings) -> frozenset[str]:
    """Return the ids of datasets, models and jobs that have files, recorded or not."""
    return frozenset(path.name for kind in KINDS for path in strays(settings.data_dir / kind, ()))


def check_sound(database: Path, check: str = "quick_check") -> None:
    """Read the whole store by this check of SQLite's; raise ServiceError store_corrupt if SQLite finds it damaged."""
    try:
        with _opened(database) as connection:
            (verdict,) = connection.execute(f"PRAGMA {check}(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if (error.sqlite_errorcode & 0xFF) not in DAMAGED:
            raise
        verdict = str(error)
    if verdict != "ok":
        raise ServiceError(CORRUPT, f"{database} is damaged: {' '.join(verdict.split())}", RESTORE)


@contextmanager
def _opened(database: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection to a store of any version, which may be damaged."""
    with telling_damage(), closing(sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True, timeout=30)) as connection:
        connection.text_factory = replaced
        yield connection


def read_contents(database: Path) -> StoreContents:
    """Read the ids in a store of any version, without changing it. Raises ServiceError store_corrupt."""
    try:
        return _read_contents(database)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        raise ServiceError(CORRUPT, f"{database} is no store of this program: {error}", RESTORE) from error


def _read_contents(database: Path) -> StoreContents:
    with _opened(database) as connection:
        if fault := fault_of(connection, _APART):
            raise ServiceError(CORRUPT, f"{database} is damaged: {fault}", RESTORE)
        is_new = connection.execute("PRAGMA user_version").fetchone()[0] == 0
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

        def ids(table: str, which: str = "TRUE") -> list[str]:
            if table not in tables and (is_new or table == _ID_TABLE):
                return []
            return [row_id for (row_id,) in connection.execute(f"SELECT id FROM {table} WHERE {which}")]

        lasting = (*ids("models"), *ids("datasets", "state IN ('ready', 'changing')"))
        recorded = (*lasting, *ids("datasets"), *ids("jobs"))
        return StoreContents(next(iter(ids(_ID_TABLE)), None), frozenset(recorded), frozenset(lasting))


def unusable(data_dir: Path, error: Exception) -> ServiceError:
    """Make the error of a data directory that is full, or cannot be written to."""
    reason, path = getattr(error, "strerror", None) or str(error), getattr(error, "filename", None)
    where = f"{path}: " if path and Path(os.fsdecode(path)) != data_dir else ""
    hint = "It has to be a directory on a disk of this machine, with free space, that this user may write to."
    return ServiceError("data_dir_unusable", f"the data directory {data_dir} cannot be used: {where}{reason}", hint)


def give_id(settings: Settings) -> None:
    """Give a directory and its store the same id, unless they have one already."""
    database = Database(settings.database)
    with database.write() as connection:
        connection.execute(_SCHEMA)
        row = connection.execute("SELECT id FROM directory").fetchone()
        directory_id = row["id"] if row else read_id(settings) or uuid.uuid4().hex
        if not row:
            connection.execute("INSERT INTO directory VALUES (?)", (directory_id,))
    with database.write():  # the lock lets one process at a time write the file, after the store has the id
        if read_id(settings) is None:
            write_file(settings.data_dir / ID_FILE, [f"{directory_id}\n".encode()])


def stray_paths(settings: Settings) -> list[Path]:
    """Return the directories without a record, as paths below the data directory."""
    database = settings.database
    recorded = frozenset() if is_blank(database) else read_contents(database).recorded
    paths = [path for kind in KINDS for path in strays(settings.data_dir / kind, recorded)]
    return [path.relative_to(settings.data_dir) for path in paths]


def tell_strays(settings: Settings) -> None:
    """Log a warning that names directories of datasets, models and jobs that have no record."""
    paths = stray_paths(settings)
    if paths:
        some = ", ".join(map(str, paths[:5]))
        _log.warning(
            "%d datasets, models or jobs have no record and stay: %s; streamsvm doctor names all", len(paths), some
        )


class Soundness:
    """Checks the store of a data directory again and again, but reads all of it at most once in `seconds`."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        seconds: float = _RECHECK_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = settings.database
        self._store = store
        self._seconds = seconds
        self._clock = clock
        self._next = clock() + seconds  # opening the store has just read it

    def check(self) -> None:
        """Raise ServiceError store_missing or store_corrupt, or sqlite3.Error, if records cannot be read."""
        if is_blank(self._path):
            raise ServiceError(MISSING, f"{self._path} is missing or empty", RESTORE)
        if self._clock() >= self._next:
            check_sound(self._path)
            self._next = self._clock() + self._seconds
        self._store.dataset_state("")
