"""Tokens, which let others than this machine's users use the service. The database has their hashes only."""

import hashlib
import re
import secrets
import sqlite3
from typing import Any, NamedTuple

from streamsvm.service.errors import ServiceError
from streamsvm.service.records.database import Database
from streamsvm.service.records.stamps import now
from streamsvm.storage.files.durable import write_file

# Each scope allows all that the ones before it allow.
SCOPES = ("read", "submit", "admin")

SCHEMA = """CREATE TABLE IF NOT EXISTS tokens (
    name TEXT PRIMARY KEY, scope TEXT NOT NULL, hash TEXT NOT NULL UNIQUE, created_at TEXT NOT NULL)"""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}", re.ASCII)


# The hint when a token is needed and none exists.
NO_TOKENS = "There is none. On the machine of the service: streamsvm token new NAME --scope admin --data-dir DIRECTORY"
TOKENS_NEEDED = "tokens-needed"
_MARK_TEXT = b"There have been tokens: without one nobody gets in, also after the last one was revoked.\n"


class Token(NamedTuple):
    """The owner's name, and one of SCOPES."""

    name: str
    scope: str


class Tokens:
    """The tokens of a data directory, by name.

    The file TOKENS_NEEDED beside the database says that tokens have existed, and so that one is needed. It stays when
    the last token is revoked or the database is lost; the operator may remove it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._mark = database.directory / TOKENS_NEEDED
        with database.write() as connection:
            connection.execute(SCHEMA)
        # Older versions did not write the file.
        if self.list():
            self._need()

    def are_needed(self) -> bool:
        """Whether a token is needed: there are tokens, or there have been."""
        return self._mark.exists()

    def new(self, name: str, scope: str) -> str:
        """Make a token and return it: it cannot be shown again. Raises `name_invalid`, `token_exists`."""
        if not _NAME.fullmatch(name):
            raise ServiceError("name_invalid", "this cannot be a token's name", "Up to 64 letters, digits and _.@-")
        token = f"ssvm_{secrets.token_urlsafe(32)}"
        self._need()
        try:
            with self._database.write() as connection:
                connection.execute("INSERT INTO tokens VALUES (?, ?, ?, ?)", (name, scope, hash_of(token), now()))
        except sqlite3.IntegrityError:
            raise ServiceError("token_exists", f"there is a token {name}", "Revoke it first.") from None
        return token

    def list(self) -> list[dict[str, Any]]:
        """Name, scope and created_at of each, by name."""
        return [dict(row) for row in self._database.rows("SELECT name, scope, created_at FROM tokens ORDER BY name")]

    def revoke(self, name: str) -> None:
        """Delete a token; a running service refuses it within a second. Raises `unknown_token`."""
        with self._database.write() as connection:
            if not connection.execute("DELETE FROM tokens WHERE name = ?", (name,)).rowcount:
                raise ServiceError("unknown_token", "there is no such token")

    def change(self) -> tuple[int, ...]:
        """A value that differs after every write of any process, see `Database.change`."""
        return self._database.change()

    def table(self) -> dict[str, Token]:
        """All tokens by their hashes."""
        rows = self._database.rows("SELECT hash, name, scope FROM tokens")
        return {row["hash"]: Token(row["name"], row["scope"]) for row in rows}

    def _need(self) -> None:
        if not self.are_needed():
            write_file(self._mark, [_MARK_TEXT])


def hash_of(token: str) -> str:
    """The hash that is stored. A token has 256 random bits, so that a salt or a slow hash would not add security."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()


def allows(scope: str, needed: str) -> bool:
    """Whether a token of this scope may do what needs the scope `needed`."""
    return SCOPES.index(scope) >= SCOPES.index(needed)
