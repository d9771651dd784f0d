"""The moves of aliases on record: who pointed an alias at which version, and when."""

import sqlite3

from streamsvm.service.errors import ServiceError
from streamsvm.service.records.stamps import now

# The newest move of an alias.
ALIAS_MOVE = (
    "SELECT alias, version, id AS move, moved_at, moved_by FROM alias_moves WHERE name = ? AND alias = ? "
    "ORDER BY id DESC LIMIT 1"
)
# Where each alias points: its newest move, unless that has deleted it.
ALIASES = (
    "SELECT alias, version, moved_at, moved_by FROM alias_moves WHERE version IS NOT NULL AND id IN "
    "(SELECT max(id) FROM alias_moves WHERE name = ? GROUP BY alias) ORDER BY alias"
)
ALL_ALIASES = (
    "SELECT name, alias, version, moved_at, moved_by FROM alias_moves WHERE version IS NOT NULL AND id IN "
    "(SELECT max(id) FROM alias_moves GROUP BY name, alias) ORDER BY alias"
)


def check_no_alias(connection: sqlite3.Connection, name: str, version: int) -> None:
    """Raise `model_in_use` if an alias points at a version."""
    for row in connection.execute(ALIASES, (name,)).fetchall():
        if row["version"] == version:
            message = f"alias {row['alias']} points at version {version} of {name}"
            raise ServiceError("model_in_use", message, "Move the alias to another version, or delete it.")


def check_move(connection: sqlite3.Connection, name: str, alias: str, expected: int | None) -> int:
    """Return the newest move of an alias, 0 if there is no alias. Raises `alias_moved` if another move is expected."""
    newest = "SELECT id, version FROM alias_moves WHERE name = ? AND alias = ? ORDER BY id DESC LIMIT 1"
    row = connection.execute(newest, (name, alias)).fetchone()
    move = row["id"] if row and row["version"] is not None else 0
    if expected is not None and expected != move:
        raise ServiceError("alias_moved", f"alias {alias} has been moved", "Look at where it points now.")
    return move


def note_move(connection: sqlite3.Connection, name: str, alias: str, version: int | None, moved_by: str) -> None:
    """Record a move; version None: the alias is deleted."""
    connection.execute(
        "INSERT INTO alias_moves (name, alias, version, moved_at, moved_by) VALUES (?, ?, ?, ?, ?)",
        (name, alias, version, now(), moved_by),
    )
