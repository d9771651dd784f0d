"""The records of models, and of registered models: a name has versions 1, 2, 3, and aliases that point at a version.

A reference to a model is the model's id, `NAME` (the newest version), `NAME:3`, or `NAME@ALIAS`.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from streamsvm.service.errors import ServiceError, unknown
from streamsvm.service.records.database import now
from streamsvm.service.records.table import Records, RequestKey, check_unused

# The newest move of an alias; a move points the alias at a version, or deletes it (version null).
_ALIAS_MOVE = (
    "SELECT alias, version, id AS move, moved_at, moved_by FROM alias_moves WHERE name = ? AND alias = ? "
    "ORDER BY id DESC LIMIT 1"
)
# Where each alias points: its newest move, unless that has deleted it.
_ALIASES = (
    "SELECT alias, version, moved_at, moved_by FROM alias_moves WHERE version IS NOT NULL AND id IN "
    "(SELECT max(id) FROM alias_moves WHERE name = ? GROUP BY alias) ORDER BY alias"
)
_ALL_ALIASES = (
    "SELECT name, alias, version, moved_at, moved_by FROM alias_moves WHERE version IS NOT NULL AND id IN "
    "(SELECT max(id) FROM alias_moves GROUP BY name, alias) ORDER BY alias"
)
MODEL_NAME = "^[a-z0-9][a-z0-9_.-]{0,63}$"
_ALIAS = r"[A-Za-z][A-Za-z0-9_.-]{0,63}"
_ID = "mdl_"  # an id begins with it, a name does not
_REFERENCE = re.compile(rf"(?P<name>[^:@]+)(?::(?P<version>[1-9][0-9]{{0,8}})|@(?P<alias>{_ALIAS}))?")
_MOST_VERSIONS = 10**9
_MOST_MOVES = 100  # of an alias, in a description

_OF_VERSION = "SELECT * FROM versions WHERE name = ? AND version = ifnull(?, version) ORDER BY version DESC LIMIT 1"
_OF_ALIAS = f"SELECT * FROM versions WHERE name = ? AND version = (SELECT version FROM ({_ALIAS_MOVE}))"


class Reference(NamedTuple):
    """The model that a reference means; name and version are None if the reference is the model's id."""

    model_id: str
    name: str | None = None
    version: int | None = None


def is_id(reference: str) -> bool:
    """Return whether a reference is a model's id."""
    return reference.startswith(_ID)


class ModelRecords(Records):
    """The records of models and of their names."""

    def model(self, reference: str) -> dict[str, Any]:
        """Return the record of a model. Raises ServiceError unknown_model, unknown_alias."""
        return self._one("SELECT * FROM models WHERE id = ?", self.resolve(reference).model_id, "model")

    def models(self) -> list[dict[str, Any]]:
        """Return all records of models, the newest first."""
        return self._all("SELECT * FROM models ORDER BY id DESC")

    def adopt_model(self, model_id: str, created_at: str, job_id: str = "") -> None:
        """Record a model that has files but no record; it was made at `created_at`, job_id "" stands for no job."""
        with self._database.write() as connection:
            connection.execute("INSERT INTO models VALUES (?, ?, ?)", (model_id, job_id, created_at))

    def delete_model(self, model_id: str) -> None:
        """Delete the records of a model and its versions. Raises ServiceError unknown_model, model_in_use."""
        with self._renaming() as connection:
            check_unused(connection, "predictions", "model", model_id)
            for row in connection.execute("SELECT * FROM versions WHERE model_id = ?", (model_id,)).fetchall():
                _check_no_alias(connection, row["name"], row["version"])
            connection.execute("DELETE FROM versions WHERE model_id = ?", (model_id,))
            if not connection.execute("DELETE FROM models WHERE id = ?", (model_id,)).rowcount:
                raise ServiceError("unknown_model", "there is no such model")

    @contextmanager
    def _renaming(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection in a transaction that changes names of models; then `names` notes the change."""
        with self._database.write() as connection:
            yield connection
        self.names.note()

    def resolve(self, reference: str) -> Reference:
        """Find a reference's model; an id is not looked up. Raises ServiceError unknown_model, unknown_alias."""
        if is_id(reference):
            return Reference(reference)
        match = _REFERENCE.fullmatch(reference)
        name, version, alias = match.group("name", "version", "alias") if match else (reference, None, None)
        found = self._all(_OF_ALIAS, name, name, alias) if alias else self._all(_OF_VERSION, name, version)
        if found:
            return Reference(found[0]["model_id"], name, found[0]["version"])
        if alias is not None:
            version = self.alias(name, alias)["version"]
        message = "there is no such model" if version is None else f"model {name} has no version {version}"
        names = [row["name"] for row in self._all("SELECT name FROM registered")] if version is None else []
        raise unknown("unknown_model", message, name, names)

    def register_model(self, name: str, model_id: str, key: RequestKey | None = None) -> dict[str, Any]:
        """Make a model the next version of a name; return that version, or the model's older version of this name.

        key  idempotency key of the request
        Raises ServiceError model_name_invalid, unknown_model.
        """
        if not re.fullmatch(MODEL_NAME, name, re.ASCII) or is_id(name):
            raise ServiceError(
                "model_name_invalid",
                "that is no name for a model",
                "Use 1 to 64 of a-z, 0-9, dots, - and _, and begin with a letter or digit, not with mdl_.",
            )
        with self._renaming() as connection:
            if not connection.execute("SELECT 1 FROM models WHERE id = ?", (model_id,)).fetchone():
                raise ServiceError("unknown_model", "there is no such model")
            registered = add_version(connection, name, model_id)
            if key is not None:
                key.note(connection, f"{name}:{registered['version']}")
            return registered

    def registered_models(self) -> list[dict[str, Any]]:
        """Return all registered models: name, created_at, latest_version (None: all are deleted) and aliases."""
        named = self._all(
            "SELECT name, created_at, (SELECT max(version) FROM versions WHERE versions.name = registered.name) "
            "AS latest_version FROM registered ORDER BY name"
        )
        aliases: dict[str, list[dict[str, Any]]] = {}
        for alias in self._all(_ALL_ALIASES):
            aliases.setdefault(alias.pop("name"), []).append(alias)
        return [{**each, "aliases": aliases.get(each["name"], [])} for each in named]

    def names_of_model(self, model_id: str) -> list[dict[str, Any]]:
        """Return the names of a model, each with the version that the model is."""
        return self._all("SELECT name, version FROM versions WHERE model_id = ? ORDER BY name", model_id)

    def registered_model(self, name: str) -> dict[str, Any]:
        """Return a registered model's name, created_at, versions (newest first), aliases, and newest moves of aliases.

        Raises ServiceError unknown_model_name.
        """
        registered = self._one("SELECT name, created_at FROM registered WHERE name = ?", name, "model_name")
        versions = self._all(
            "SELECT version, model_id, versions.created_at, job_id FROM versions JOIN models ON models.id = model_id "
            "WHERE name = ? ORDER BY version DESC",
            name,
        )
        moves = self._all(
            "SELECT alias, version, moved_at, moved_by FROM alias_moves WHERE name = ? ORDER BY id DESC LIMIT ?",
            name, _MOST_MOVES,
        )  # fmt: skip
        return {**registered, "versions": versions, "aliases": self._all(_ALIASES, name), "moves": moves}

    def delete_registered_model(self, name: str) -> None:
        """Delete a name with its versions and aliases; the models stay. Raises ServiceError unknown_model_name."""
        with self._renaming() as connection:
            if not connection.execute("DELETE FROM registered WHERE name = ?", (name,)).rowcount:
                raise ServiceError("unknown_model_name", "no model has this name")
            for table in ("versions", "alias_moves"):
                connection.execute(f"DELETE FROM {table} WHERE name = ?", (name,))

    def delete_version(self, name: str, version: int) -> None:
        """Delete a version, not its model; its number stays used. Raises ServiceError unknown_model, model_in_use."""
        with self._renaming() as connection:
            if not _version(connection, name, version):
                raise ServiceError("unknown_model", f"model {name} has no version {version}")
            _check_no_alias(connection, name, version)
            connection.execute("DELETE FROM versions WHERE name = ? AND version = ?", (name, version))

    def alias(self, name: str, alias: str) -> dict[str, Any]:
        """Return alias, version, move (a number that differs after each move), moved_at and moved_by of an alias.

        Raises ServiceError unknown_alias.
        """
        rows = self._all(_ALIAS_MOVE, name, alias)
        if not rows or rows[0]["version"] is None:
            raise ServiceError("unknown_alias", f"model {name} has no alias {alias}")
        return rows[0]

    def move_alias(
        self, name: str, alias: str, version: int, moved_by: str, expected: int | None = None
    ) -> dict[str, Any]:
        """Point an alias at a version; return what `alias` then returns.

        expected  newest move that the caller knows of; 0: the alias does not exist yet; None: do not check
        Raises ServiceError alias_invalid, unknown_model; alias_moved if the alias's newest move is not `expected`.
        """
        if not re.fullmatch(_ALIAS, alias):
            raise ServiceError(
                "alias_invalid", "that is no alias", "An alias begins with a letter; 64 letters, digits, ., - and _."
            )
        with self._renaming() as connection:
            _check_move(connection, name, alias, expected)
            if not _version(connection, name, version):
                raise ServiceError("unknown_model", f"model {name} has no version {version}")
            _note_move(connection, name, alias, version, moved_by)
            # Read before the commit: afterwards another process may move the alias again.
            return dict(connection.execute(_ALIAS_MOVE, (name, alias)).fetchone())

    def delete_alias(self, name: str, alias: str, deleted_by: str, expected: int | None = None) -> None:
        """Delete an alias; `expected` as in `move_alias`. Raises ServiceError unknown_alias, alias_moved."""
        with self._renaming() as connection:
            if not _check_move(connection, name, alias, expected):
                raise ServiceError("unknown_alias", f"model {name} has no alias {alias}")
            _note_move(connection, name, alias, None, deleted_by)


def add_version(connection: sqlite3.Connection, name: str, model_id: str) -> dict[str, Any]:
    """Make a model the next version of a name, in the caller's transaction; see `ModelRecords.register_model`."""
    query = "SELECT name, version, model_id, created_at FROM versions WHERE name = ? AND model_id = ?"
    if not connection.execute(query, (name, model_id)).fetchone():
        connection.execute("INSERT OR IGNORE INTO registered VALUES (?, ?, 0)", (name, now()))
        connection.execute("UPDATE registered SET last_version = last_version + 1 WHERE name = ?", (name,))
        connection.execute(
            "INSERT INTO versions SELECT name, last_version, ?, ? FROM registered WHERE name = ?",
            (model_id, now(), name),
        )
    return dict(connection.execute(query, (name, model_id)).fetchone())


def _version(connection: sqlite3.Connection, name: str, version: int) -> sqlite3.Row | None:
    if version > _MOST_VERSIONS:  # SQLite takes no number beyond 64 bits
        return None
    return connection.execute("SELECT * FROM versions WHERE name = ? AND version = ?", (name, version)).fetchone()


def _check_no_alias(connection: sqlite3.Connection, name: str, version: int) -> None:
    """Raise ServiceError model_in_use if an alias points at this version."""
    for row in connection.execute(_ALIASES, (name,)).fetchall():
        if row["version"] == version:
            message = f"alias {row['alias']} points at version {version} of {name}"
            raise ServiceError("model_in_use", message, "Move the alias to another version, or delete it.")


def _check_move(connection: sqlite3.Connection, name: str, alias: str, expected: int | None) -> int:
    """Return an alias's newest move, 0 without the alias. Raises ServiceError alias_moved if another is expected."""
    row = connection.execute(_ALIAS_MOVE, (name, alias)).fetchone()
    move = row["move"] if row and row["version"] is not None else 0
    if expected is not None and expected != move:
        raise ServiceError("alias_moved", f"alias {alias} has been moved", "Look at where it points now.")
    return move


def _note_move(connection: sqlite3.Connection, name: str, alias: str, version: int | None, moved_by: str) -> None:
    """Record a move; version None: the alias is deleted."""
    connection.execute(
        "INSERT INTO alias_moves (name, alias, version, moved_at, moved_by) VALUES (?, ?, ?, ?, ?)",
        (name, alias, version, now(), moved_by),
    )
