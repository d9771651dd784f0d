"""The one SQLite file of a data directory. A connection an operation; every write is one transaction."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

# WAL loses data in a rare race before these versions (https://sqlite.org/wal.html, section 11).
_WAL_FIXED = ((3, 51, 3), (3, 50, 7), (3, 44, 6))
# Codes of a file that is no sound database.
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def journal_mode(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> str:
    """WAL where this SQLite has the fix, else PERSIST: the room of the last journal is there on a full disk, too."""
    newest, *branches = _WAL_FIXED
    is_fixed = version >= newest or any(version[:2] == fixed[:2] and version >= fixed for fixed in branches)
    return "WAL" if is_fixed else "PERSIST"


class Database:
    """Reads and writes, from any thread or process; sqlite3.Error for what the disk did.

    The file is made here, and never later: one that was moved away is not followed by an empty one.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.touch()
        self.directory = path.parent
        self._uri = f"{path.absolute().as_uri()}?mode=rw"
        self._written = (str(path), f"{path}-wal")

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """What a query finds."""
        with closing(self._connect()) as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction, durable when the block is left; undone if it raises."""
        with closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # A full disk has undone it already.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def change(self) -> tuple[int, ...]:
        """A mark that differs after every write, whoever made it. Costs next to nothing."""
        marks = []
        for path in self._written:
            with suppress(FileNotFoundError):
                found = os.stat(path)  # noqa: PTH116 - many times a second
                marks += [found.st_mtime_ns, found.st_size]
        return tuple(marks)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._uri, uri=True, timeout=30, isolation_level=None)
        connection.row_factory = sqlite3.Row
        # A text that is damaged costs its own record, not every list.
        connection.text_factory = lambda text: text.decode(errors="replace")
        connection.execute(f"PRAGMA journal_mode = {journal_mode()}")
        connection.execute("PRAGMA synchronous = FULL")
        return connection
