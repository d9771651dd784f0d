"""The SQLite file of a data directory: an operation opens a connection, a write is one transaction. Ids and times."""

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
    """Turn UnicodeDecodeError, by which Python reports some damaged files, into sqlite3.DatabaseError.

    SQLite's message has names from the file, which may be no UTF-8 once a bit of them has flipped.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        damaged = sqlite3.DatabaseError("database disk image is malformed")
        damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damaged from error


def journal_mode(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> str:
    """Return WAL if this SQLite has the fix, else PERSIST, whose journal keeps its space, so that a full disk works."""
    newest, *branches = _WAL_FIXED
    is_fixed = version >= newest or any(version[:2] == fixed[:2] and version >= fixed for fixed in branches)
    return "WAL" if is_fixed else "PERSIST"


def replaced(text: bytes) -> str:
    """Decode a text of the store; damaged bytes are replaced, so that lists of records can still be read."""
    return text.decode(errors="replace")


class Database:
    """Reads and writes the SQLite file, from any thread or process. Raises sqlite3.Error if the disk fails.

    Only the constructor makes the file: if the file is moved away later, operations fail and make no empty file.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.touch()
        self.directory = path.parent
        self._uri = f"{path.absolute().as_uri()}?mode=rw"
        self._written = (str(path), f"{path}-wal")

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """Return the rows that a query finds; `values` replace its question marks."""
        with telling_damage(), closing(self._connect()) as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection in a transaction; the end of the `with` statement commits it, an error rolls it back."""
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
        """Return the files' times and sizes, which differ after every write of any process, at almost no cost.

        The kernel's clock of files ticks, so two writes may have the same time. For _TICK_NS after a write, therefore,
        every call returns another value.
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
    """Return the current time as `rfc3339` writes it."""
    return rfc3339(datetime.now(UTC))


def rfc3339(moment: datetime) -> str:
    """Write a time in UTC as in RFC 3339, with milliseconds."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
