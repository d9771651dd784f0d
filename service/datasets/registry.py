"""The service's datasets by name: uploads, imports, changes and deletions, each done whole or not at all."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from streamsvm.reader.ingest.append import remove_block
from streamsvm.reader.ingest.progress import read_progress
from streamsvm.reader.options import InputOptions
from streamsvm.reader.sources.locations import is_url
from streamsvm.service.cluster.dataset.shards import check_here
from streamsvm.service.cluster.nodes.connecting import check_ray
from streamsvm.service.datasets.forgetting import forget, forget_parts, is_gone
from streamsvm.service.datasets.importing import Importer, check_source, open_import
from streamsvm.service.datasets.resuming import ResumableUpload, ResumableUploads
from streamsvm.service.datasets.sample import sample
from streamsvm.service.datasets.uploading import Uploads
from streamsvm.service.datasets.uploads import MoreRows, NewDataset, Upload, end_change, undo_change
from streamsvm.service.datasets.views import dataset_view
from streamsvm.service.errors import ServiceError
from streamsvm.service.records.keys import RequestKey
from streamsvm.service.records.store import Store
from streamsvm.service.records.unrecorded import is_marked, sweep, unrecording
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.dataset import Dataset, staged_path
from streamsvm.storage.blocks.manifest import MANIFEST, Manifest, read_manifest
from streamsvm.storage.blocks.profile import read_profile

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)


def check_name(name: str) -> None:
    """Raise ServiceError `name_invalid` unless the text can be a dataset's name."""
    if not _NAME.fullmatch(name):
        raise ServiceError(
            "name_invalid",
            "this cannot be a dataset's name",
            "Up to 64 of a-z, 0-9, _ and -; the first is a letter or digit.",
        )


class Datasets:
    """The datasets of a data directory; their records are in the store, their blocks below `settings.datasets`."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._importer = Importer(settings, store)
        self._uploads = Uploads(settings.max_uploads)
        self.resumable = ResumableUploads(settings.upload_wait)

    def recover(self) -> None:
        """Clean up after the process before this one: remove unfinished uploads and changes, begin imports again."""
        for record in self._store.datasets():
            if record["state"] == "ingesting":
                self._recover(record)
            elif record["state"] == "changing":
                # The manifest has all of the change or nothing of it.
                undo_change(self.directory(record["id"]))
                self._store.later(partial(end_change, self._store, self.directory(record["id"])))
        recorded = {record["id"] for record in self._store.datasets()}
        sweep(self._settings.datasets, recorded, self._forget, keeps=is_gone)
        forget_parts(self._settings.datasets, self._settings)
        if self._store.next_import() is not None:
            self._importer.wake()

    def _recover(self, record: dict[str, Any]) -> None:
        directory = self.directory(record["id"])
        if (directory / MANIFEST).exists() and not is_marked(directory):
            # The dataset is complete and its client knows: the store must be an older copy.
            self._store.later(partial(self._store.set_dataset_ready, record["id"]))
            return
        # No client was told that this dataset exists, complete or not.
        self._forget(directory)
        if record["source"] is None:
            self._store.later(partial(self._store.drop_dataset, record["id"]))

    def missing_threads(self) -> list[str]:
        """Names of threads that have work but do not run; each is started again."""
        threads = {"importer": self._importer.background, "writing-later": self._store.later.background}
        return [name for name, background in threads.items() if not background.is_there()]

    def _forget(self, directory: Path) -> None:
        forget(directory, self._settings)

    async def upload(
        self,
        name: str,
        options: InputOptions,
        owner: str,
        chunks: AsyncIterator[bytes],
        begun: Callable[[Upload], None] = lambda _: None,
    ) -> None:
        """Reserve the name and read chunks in, in a slot of the owner. Raises as `Uploads.run`.

        An upload of the owner that waits under this name is given up. `begun` is called with the upload once it has
        its slot.
        """
        check_name(name)
        await self.resumable.make_way(name, owner)

        def begin() -> NewDataset:
            upload = NewDataset(self._settings, self._store, self._store.add_dataset(name))
            begun(upload)
            return upload

        await self._uploads.run(owner, begin, options, chunks)

    async def begin_upload(self, name: str, options: InputOptions, owner: str) -> ResumableUpload:
        """Begin an upload whose bytes come in several requests. Raises what `upload` raises before it reads."""
        return await self.resumable.begin(name, owner, partial(self.upload, name, options, owner))

    def uploaded_bytes(self, name: str, upload_id: str) -> int | None:
        """The bytes of a complete upload, by its id, which is that of its dataset; None if there is none."""
        with suppress(ServiceError):
            record = self._store.dataset(name)
            if record["id"] == upload_id and record["state"] in ("ready", "changing"):
                return read_manifest(self.directory(upload_id)).input_bytes
        return None

    async def append(self, name: str, options: InputOptions, owner: str, chunks: AsyncIterator[bytes]) -> None:
        """Add the rows in chunks to a dataset that no job uses, in a slot of the owner. Raises as `upload` does."""

        def begin() -> MoreRows:
            self.with_rows(name)
            return MoreRows(self._settings, self._store, self._store.begin_change(name)["id"])

        await self._uploads.run(owner, begin, options, chunks)

    def note_request(self, name: str, key: RequestKey) -> None:
        """Note which request changes a dataset, when all of its rows have come and before they take effect."""
        record = self._store.dataset(name)
        self._store.note_rows(key, record["id"], read_manifest(self.directory(record["id"])).uid)

    def remove_block(self, name: str, number: int) -> None:
        """Remove a block of a dataset that no job uses. Raises UnknownBlock, LastBlock."""
        self.with_rows(name)
        record = self._store.begin_change(name)
        try:
            remove_block(self.directory(record["id"]), number)
        finally:
            self._store.later(partial(end_change, self._store, self.directory(record["id"])))

    def begin_import(
        self, name: str, file: str, options: InputOptions, machines: int | str | None = None
    ) -> dict[str, Any]:
        """Reserve the name and queue an import; returns the dataset's view.

        file      a path below the import directory; or a URL or pattern of files in an object store
        machines  how many machines of the Ray cluster, or "all", each read and keep a range of the object store's files
        """
        check_name(name)
        source: dict[str, Any] = {"import": file, "options": asdict(options)}
        if machines is not None:
            check_ray(self._settings.ray_address)
            source["machines"] = machines
        if is_url(file):
            check_source(self._settings.import_sources, file)
        elif machines is not None:
            raise ServiceError(
                "machines_range",
                "other machines cannot read a file of this one",
                "Import a URL such as s3://bucket/part-*.",
            )
        else:
            with open_import(self._settings.import_dir, file) as opened:
                source["bytes"] = os.fstat(opened.fileno()).st_size
        self._store.add_dataset(name, source)
        self._importer.wake()
        return self.view(name)

    def view(self, name: str) -> dict[str, Any]:
        """The view of a dataset in any state, see `dataset_view`."""
        record = self._store.dataset(name)
        if record["state"] in ("ready", "changing"):
            directory = self.directory(record["id"])
            return dataset_view(record, read_manifest(directory), profile=read_profile(directory))
        return self._unready_view(record)

    def sample(self, name: str) -> list[dict[str, Any]]:
        """Describe some rows of a ready dataset, see `sample`."""
        record, _ = self.with_rows(name)
        return sample(Dataset(self.directory(record["id"])))

    def views(self) -> list[dict[str, Any]]:
        """Views of all datasets by name, short ones: they say that a dataset is ready, and not what is in it."""
        return [self._unready_view(record) for record in self._store.datasets()]

    def _unready_view(self, record: dict[str, Any]) -> dict[str, Any]:
        progress = read_progress(staged_path(self.directory(record["id"]))) if record["state"] == "ingesting" else None
        return dataset_view(record, None, progress)

    def manifest(self, name: str) -> tuple[dict[str, Any], Manifest]:
        """Record and manifest of a ready dataset. ServiceError not_ready."""
        record = self._store.dataset(name)
        if record["state"] != "ready":
            raise ServiceError("not_ready", f"dataset {name} is not ready: {record['state']}")
        return record, read_manifest(self.directory(record["id"]))

    def with_rows(self, name: str) -> tuple[dict[str, Any], Manifest]:
        """Record and manifest of a ready dataset whose rows are on this machine. ServiceError dataset_spread."""
        record, manifest = self.manifest(name)
        check_here(manifest)
        return record, manifest

    async def delete(self, name: str) -> None:
        """Delete a dataset's record and files; an upload into it is given up."""
        record = self._store.dataset(name)
        await self._uploads.give_up(record["id"])
        await asyncio.to_thread(self._delete, record["id"])

    def _delete(self, dataset_id: str) -> None:
        # An upload that was given up has removed its record and files itself.
        if self._store.dataset_state(dataset_id) is not None:
            directory = self.directory(dataset_id)
            # If the dataset is being imported, the importer removes files that it writes after this.
            with unrecording(directory):
                self._store.delete_dataset(dataset_id)
            forget(directory, self._settings)

    def directory(self, dataset_id: str) -> Path:
        """The directory of a dataset's files."""
        return self._settings.datasets / dataset_id
