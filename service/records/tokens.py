"""Tokens: who may use the service beyond this machine's own users. Only their hashes are kept."""

import hashlib
import re
import secrets
import sqlite3
from typing import Any

from service.errors import ServiceError
from service.records.clock import now
from service.records.database import Database

# Each allows what the ones before it do.
SCOPES = ("read", "submit", "admin")

_SCHEMA = """CREATE TABLE IF NOT EXISTS tokens (
    name TEXT PRIMARY KEY, scope TEXT NOT NULL, hash TEXT NOT NULL UNIQUE, created_at TEXT NOT NULL)"""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}", re.ASCII)


class Tokens:
    """The tokens of a data directory, by name."""

    def __init__(self, database: Database) -> None:
        self._database = database
        with database.write() as connection:
            connection.execute(_SCHEMA)

    def new(self, name: str, scope: str) -> str:
        """Make a token and return it: it cannot be shown again. Raises `name_invalid`, `token_exists`."""
        if not _NAME.fullmatch(name):
            raise ServiceError("name_invalid", "this cannot be a token's name", "Up to 64 letters, digits and _.@-")
        token = f"ssvm_{secrets.token_urlsafe(32)}"
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

    def scopes(self) -> dict[str, str]:
        """Hash of a token -> its scope."""
        return {row["hash"]: row["scope"] for row in self._database.rows("SELECT hash, scope FROM tokens")}


def hash_of(token: str) -> str:
    """What is kept of a token. It has 256 random bits: no salt and no slow hash make it harder to guess."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()


def allows(scope: str, needed: str) -> bool:
    """Whether a token of this scope may do what needs that one."""
    return SCOPES.index(scope) >= SCOPES.index(needed)
