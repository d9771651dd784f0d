"""Limits the bytes of datasets that one client may have on disk."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from streamsvm.reader.ingest.append import appending_path
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.from_text import format_size
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.dataset import staged_path
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.errors import StorageError

# Bytes of an upload between two checks.
CHECK_EVERY = 64 << 20


class Quota:
    """The limit `settings.max_client_bytes`. A client has the bytes of the datasets that it has added.

    Rows that are added to a dataset, by whomever, count for the client that has added the dataset.
    """

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._store = settings, store

    def check_room(self, client: str | None) -> None:
        """Check, before a client adds anything, that it has room left. Raises ServiceError quota_exceeded."""
        self._check(client, 1)

    def check(self, client: str | None) -> None:
        """Check that what a client has, and is adding, is within the limit. Raises ServiceError quota_exceeded."""
        self._check(client, 0)

    def used(self, client: str) -> int:
        """Bytes of the blocks of a client's datasets on disk, also of those that are being read in."""
        return sum(self._bytes(record) for record in self._store.datasets_of(client))

    def _check(self, client: str | None, least_room: int) -> None:
        most = self._settings.max_client_bytes
        if most is None or client is None:
            return
        used = self.used(client)
        if used + least_room > most:
            message = f"datasets of yours take {format_size(used)}, of {format_size(most)} that you may have"
            raise ServiceError("quota_exceeded", message, "Delete some, or ask whoever runs the service for more.")

    def _bytes(self, record: dict[str, Any]) -> int:
        directory, known = self._settings.datasets / record["id"], record["bytes"]
        places = [] if known is not None else [directory]
        if record["state"] == "ingesting":
            places.append(staged_path(directory))
        elif record["state"] == "changing":
            places.append(appending_path(directory))
        return (known or 0) + sum(map(_blocks_bytes, places))


def stored_bytes(directory: Path) -> int | None:
    """Bytes of a dataset's blocks; None if its manifest is damaged, which is reported when the dataset is used."""
    with suppress(StorageError):
        return read_manifest(directory).stored_bytes
    return None


def _blocks_bytes(directory: Path) -> int:
    """Bytes of the blocks in a directory, which may vanish meanwhile."""
    total = 0
    for path in directory.glob("**/*.blk"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total
