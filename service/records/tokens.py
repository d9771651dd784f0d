"""Tokens, by which users of other machines may use the service. The database has only their hashes."""

import hashlib
import re
import secrets
import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from streamsvm.service.errors import ServiceError
from streamsvm.service.records.database import Database, now, rfc3339
from streamsvm.storage.files.durable import write_file

# Each scope allows all that the ones before it allow.
SCOPES = ("read", "submit", "admin")

SCHEMA = """CREATE TABLE IF NOT EXISTS tokens (
    name TEXT PRIMARY KEY, scope TEXT NOT NULL, hash TEXT NOT NULL UNIQUE, created_at TEXT NOT NULL)"""
_ADDED = "expires_at", "last_used_at"  # columns that tables of 0.2 lack
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}", re.ASCII)


# The hint when a token is needed and none exists.
NO_TOKENS = "There is none. On the machine of the service: streamsvm token new NAME --scope admin --data-dir DIRECTORY"
TOKENS_NEEDED = "tokens-needed"
_SPAN, _UNITS = re.compile(r"([0-9]{1,6})([hdw])"), {"h": "hours", "d": "days", "w": "weeks"}
_MARK_TEXT = b"There have been tokens: without one nobody gets in, also after the last one was revoked.\n"


class Token(NamedTuple):
    """A token: its name, one of SCOPES, and the time (`rfc3339`) from which it is refused; None: it never expires."""

    name: str
    scope: str
    expires_at: str | None = None

    @property
    def has_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= now()


class Tokens:
    """The tokens of a data directory, by name.

    The file TOKENS_NEEDED beside the database says that a token has existed, so that requests need one. The file stays
    when the last token is revoked or the database is lost; the operator may remove it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._mark = database.directory / TOKENS_NEEDED
        with database.write() as connection:
            connection.execute(SCHEMA)
            found = {row["name"] for row in connection.execute("SELECT name FROM pragma_table_info('tokens')")}
            for column in _ADDED:
                if column not in found:
                    connection.execute(f"ALTER TABLE tokens ADD COLUMN {column} TEXT")
        # Older versions did not write the file.
        if self.list():
            self._need()

    def are_needed(self) -> bool:
        """Whether requests need a token: there are tokens, or there have been tokens."""
        return self._mark.exists()

    def new(self, name: str, scope: str, expires_at: str | None = None) -> str:
        """Make a token and return it; it is not stored, so save it. Raises ServiceError name_invalid, token_exists.

        expires_at  a time that `expiry` returned; None: the token does not expire
        """
        if not _NAME.fullmatch(name):
            raise ServiceError("name_invalid", "this cannot be a token's name", "Up to 64 letters, digits and _.@-")
        token = f"ssvm_{secrets.token_urlsafe(32)}"
        self._need()
        try:
            with self._database.write() as connection:
                connection.execute(
                    "INSERT INTO tokens (name, scope, hash, created_at, expires_at) VALUES (?, ?, ?, ?, ?)",
                    (name, scope, hash_of(token), now(), expires_at),
                )
        except sqlite3.IntegrityError:
            raise ServiceError("token_exists", f"there is a token {name}", "Revoke it first.") from None
        return token

    def list(self) -> list[dict[str, Any]]:
        """Return all fields except the hash of each token, sorted by name; `last_used_at` may be a minute old."""
        query = "SELECT name, scope, created_at, expires_at, last_used_at FROM tokens ORDER BY name"
        return [dict(row) for row in self._database.rows(query)]

    def note_use(self, name: str) -> None:
        """Record that a token is being used; once a minute is enough, since this is a durable write."""
        with self._database.write() as connection:
            connection.execute("UPDATE tokens SET last_used_at = ? WHERE name = ?", (now(), name))

    def revoke(self, name: str) -> None:
        """Delete a token; a running service refuses it within a second. Raises ServiceError unknown_token."""
        with self._database.write() as connection:
            if not connection.execute("DELETE FROM tokens WHERE name = ?", (name,)).rowcount:
                raise ServiceError("unknown_token", "there is no such token")

    def change(self) -> tuple[int, ...]:
        """Return a value that differs after every write of any process, see `Database.change`."""
        return self._database.change()

    def table(self) -> dict[str, Token]:
        """Return hash -> token for all tokens."""
        rows = self._database.rows("SELECT hash, name, scope, expires_at FROM tokens")
        return {row["hash"]: Token(row["name"], row["scope"], row["expires_at"]) for row in rows}

    def _need(self) -> None:
        if not self.are_needed():
            write_file(self._mark, [_MARK_TEXT])


def hash_of(token: str) -> str:
    """Return the stored hash of a token. A token has 256 random bits: a salt or a slow hash would add no security."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()


def expiry(text: str) -> str:
    """Parse a time: hours, days or weeks from now (`12h`, `30d`, `2w`), or a date or time, UTC unless it has a zone.

    Returns it as `rfc3339`. Raises ServiceError expires_invalid, also for a time in the past.
    """
    try:
        if span := _SPAN.fullmatch(text):
            moment = datetime.now(UTC) + timedelta(**{_UNITS[span[2]]: int(span[1])})
        else:
            moment = datetime.fromisoformat(text)
            moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise ServiceError("expires_invalid", "this is no time", "Such as 30d, 12h, 2w or 2030-12-31.") from None
    if moment <= datetime.now(UTC):
        raise ServiceError("expires_invalid", f"{rfc3339(moment)} is over", "Name a time to come, such as 30d.")
    return rfc3339(moment)


def allows(scope: str, needed: str) -> bool:
    """Whether a token of the scope `scope` may make requests that need the scope `needed`."""
    return SCOPES.index(scope) >= SCOPES.index(needed)
