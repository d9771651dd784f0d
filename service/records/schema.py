"""The tables of the store, version by version."""

import sqlite3

from streamsvm.service.errors import ServiceError

# What each version of the schema adds to the one before.
_MIGRATIONS = (
    """
CREATE TABLE datasets (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, state TEXT NOT NULL, created_at TEXT NOT NULL);
CREATE TABLE jobs (
    id TEXT PRIMARY KEY, dataset_id TEXT NOT NULL, spec TEXT NOT NULL, state TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0, created_at TEXT NOT NULL, started_at TEXT, finished_at TEXT,
    transitions TEXT NOT NULL, progress TEXT, result TEXT, failure TEXT, model_id TEXT);
CREATE INDEX jobs_by_state ON jobs (state);
CREATE TABLE models (
    id TEXT PRIMARY KEY, job_id TEXT NOT NULL, created_at TEXT NOT NULL);
""",
    "ALTER TABLE jobs ADD COLUMN requested TEXT;",
    # source: what is imported into it; failure: why it could not be.
    "ALTER TABLE datasets ADD COLUMN source TEXT; ALTER TABLE datasets ADD COLUMN failure TEXT;",
    # continues: the job it goes on from; crashes without a newer checkpoint than that number.
    "ALTER TABLE jobs ADD COLUMN continues TEXT; ALTER TABLE jobs ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN crash_checkpoint INTEGER NOT NULL DEFAULT -1;",
)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a store, new or of an older version, up to this one. Raises ServiceError `unknown_version` for a newer."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if not 0 <= version <= len(_MIGRATIONS):
        told = f"the store has version {version}, this program {len(_MIGRATIONS)}"
        raise ServiceError("unknown_version", told, "Start the version of StreamSVM that wrote it, or a newer one.")
    if version == len(_MIGRATIONS):
        return  # without a write: the disk may be full
    for statement in "".join(_MIGRATIONS[version:]).split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")
