"""The SQLite file of a data directory: an operation opens a connection, a write is one transaction; ids and times."""

import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

# WAL loses data in a rare race before these versions (https://sqlite.org/wal.html, section 11).
_WAL_FIXED = ((3, 51, 3), (3, 50, 7), (3, 44, 6))
# Kernels tick a hundred times a second, or more often.
_TICK_NS = 20_000_000
# SQLite's codes for a damaged file.
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@contextmanager
def telling_damage() -> Iterator[None]:
    """Raise sqlite3.DatabaseError, of a damaged file, where Python cannot even read SQLite's message about it.

    The message has names from the file, which are no UTF-8 once a bit of them has flipped.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        damaged = sqlite3.DatabaseError("database disk image is malformed")
        damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damaged from error


def journal_mode(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> str:
    """WAL if this SQLite has the fix, else PERSIST, which keeps the journal's space and so can write on a full disk."""
    newest, *branches = _WAL_FIXED
    is_fixed = version >= newest or any(version[:2] == fixed[:2] and version >= fixed for fixed in branches)
    return "WAL" if is_fixed else "PERSIST"


def replaced(text: bytes) -> str:
    """Decode a text of the store: a damaged one must spoil its own record only, not every list that contains it."""
    return text.decode(errors="replace")


class Database:
    """Reads and writes, from any thread or process; raises sqlite3.Error if the disk fails.

    Only the constructor makes the file: if it is moved away later, operations fail instead of making an empty one.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.touch()
        self.directory = path.parent
        self._uri = f"{path.absolute().as_uri()}?mode=rw"
        self._written = (str(path), f"{path}-wal")

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """The rows that a query finds."""
        with telling_damage(), closing(self._connect()) as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction: durable at the end of the block, rolled back if the block raises."""
        with telling_damage(), closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # On a full disk SQLite has rolled back already.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def change(self) -> tuple[int, ...]:
        """Times and sizes of the files: they differ after every write of any process, and cost next to nothing.

        The kernel's clock of files ticks: a write may follow another within a tick. So the value differs from every
        other one while the last write is younger than that.
        """
        marks, now = [], time.time_ns()
        for path in self._written:
            with suppress(FileNotFoundError):
                stat = os.stat(path)  # noqa: PTH116 - many times a second
                marks += [stat.st_mtime_ns, stat.st_size]
                if now - stat.st_mtime_ns < _TICK_NS:
                    marks.append(now)
        return tuple(marks)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._uri, uri=True, timeout=30, isolation_level=None)
        connection.row_factory = sqlite3.Row
        connection.text_factory = replaced
        connection.execute(f"PRAGMA journal_mode = {journal_mode()}")
        connection.execute("PRAGMA synchronous = FULL")
        return connection


_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_id(kind: str) -> str:
    """Make an id such as job_01J9Z3...: a ULID (48 bits of milliseconds, 80 random ones), so that ids sort by time."""
    number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    return f"{kind}_" + "".join(_DIGITS[number >> shift & 31] for shift in range(125, -1, -5))


def now() -> str:
    """The current time, as `rfc3339`."""
    return rfc3339(datetime.now(UTC))


def rfc3339(moment: datetime) -> str:
    """Write a time in UTC as RFC 3339 does, with milliseconds."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
