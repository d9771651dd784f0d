"""Tokens: who may use the service beyond this machine's own users. Only their hashes are kept."""

import hashlib
import re
import secrets
import sqlite3
from typing import Any, NamedTuple

from streamsvm.service.errors import ServiceError
from streamsvm.service.records.clock import now
from streamsvm.service.records.database import Database
from streamsvm.storage.files.durable import write_file

# Each allows what the ones before it do.
SCOPES = ("read", "submit", "admin")

_SCHEMA = """CREATE TABLE IF NOT EXISTS tokens (
    name TEXT PRIMARY KEY, scope TEXT NOT NULL, hash TEXT NOT NULL UNIQUE, created_at TEXT NOT NULL)"""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}", re.ASCII)


# To whom it concerns that there is none, though one is needed.
NO_TOKENS = "There is none. On the machine of the service: streamsvm token new NAME --scope admin --data-dir DIRECTORY"
TOKENS_NEEDED = "tokens-needed"
_MARK_TEXT = b"There have been tokens: without one nobody gets in, also after the last one was revoked.\n"


class Token(NamedTuple):
    """Whose it is, and what it allows: one of SCOPES."""

    name: str
    scope: str


class Tokens:
    """The tokens of a data directory, by name.

    A file beside the records says that there have been tokens. It stays when the last one is revoked, or the records
    are lost; whoever runs the service may remove it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._mark = database.directory / TOKENS_NEEDED
        with database.write() as connection:
            connection.execute(_SCHEMA)
        # Of a data directory of a version that made no mark.
        if self.list():
            self._need()

    def are_needed(self) -> bool:
        """Whether there are tokens, or have been."""
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
        """It is worth nothing from now on, to a running service within a second. Raises `unknown_token`."""
        with self._database.write() as connection:
            if not connection.execute("DELETE FROM tokens WHERE name = ?", (name,)).rowcount:
                raise ServiceError("unknown_token", "there is no such token")

    def table(self) -> tuple[dict[str, Token], bool]:
        """Hash of a token -> the token; and whether one is needed."""
        rows = self._database.rows("SELECT hash, name, scope FROM tokens")
        return {row["hash"]: Token(row["name"], row["scope"]) for row in rows}, self.are_needed()

    def _need(self) -> None:
        if not self.are_needed():
            write_file(self._mark, [_MARK_TEXT])


def hash_of(token: str) -> str:
    """What is kept of a token. It has 256 random bits: no salt and no slow hash make it harder to guess."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()


def allows(scope: str, needed: str) -> bool:
    """Whether a token of this scope may do what needs that one."""
    return SCOPES.index(scope) >= SCOPES.index(needed)
