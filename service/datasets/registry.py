"""Datasets by name: read in by a child process while they arrive, published whole or not at all."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
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
from streamsvm.service.datasets.sample import sample
from streamsvm.service.datasets.uploading import Uploads
from streamsvm.service.datasets.uploads import MoreRows, NewDataset, undo_change
from streamsvm.service.datasets.views import dataset_view
from streamsvm.service.errors import ServiceError
from streamsvm.service.records.store import Store
from streamsvm.service.records.unrecorded import is_marked, sweep, unrecording
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.dataset import Dataset, staged_path
from streamsvm.storage.blocks.manifest import MANIFEST, Manifest, read_manifest
from streamsvm.storage.blocks.profile import read_profile

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)


def check_name(name: str) -> None:
    """Raises ServiceError `name_invalid`."""
    if not _NAME.fullmatch(name):
        raise ServiceError(
            "name_invalid", "this cannot be a dataset's name", "Up to 64 of a-z, 0-9, _ and -, the first no _ or -."
        )


class Datasets:
    """Names on top of the directories that hold the blocks."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._importer = Importer(settings, store)
        self._uploads = Uploads(settings.max_uploads)

    def recover(self) -> None:
        """What a process before this one did not finish: uploads are forgotten, imports begin anew."""
        for record in self._store.datasets():
            if record["state"] == "ingesting":
                self._recover(record)
            elif record["state"] == "changing":
                # Either all of the change is there or nothing.
                undo_change(self.directory(record["id"]))
                self._store.later(partial(self._store.set_dataset_ready, record["id"]))
        recorded = {record["id"] for record in self._store.datasets()}
        sweep(self._settings.datasets, recorded, self._forget, keeps=is_gone)
        forget_parts(self._settings.datasets, self._settings)
        if self._store.next_import() is not None:
            self._importer.wake()

    def _recover(self, record: dict[str, Any]) -> None:
        directory = self.directory(record["id"])
        if (directory / MANIFEST).exists() and not is_marked(directory):
            # The store is an older copy: the dataset was complete, and whoever sent it has been told so.
            self._store.later(partial(self._store.set_dataset_ready, record["id"]))
            return
        # Published but not yet recorded is no loss: it was never acknowledged.
        self._forget(directory)
        if record["source"] is None:
            self._store.later(partial(self._store.drop_dataset, record["id"]))

    def missing_threads(self) -> list[str]:
        """Names of those that do not run and have something to do. One that is missing is begun anew."""
        found = {"importer": self._importer.background, "writing-later": self._store.later.background}
        return [name for name, background in found.items() if not background.is_there()]

    def _forget(self, directory: Path) -> None:
        forget(directory, self._settings)

    async def upload(self, name: str, options: InputOptions, owner: str, chunks: AsyncIterator[bytes]) -> None:
        """Reserve the name and read chunks in, in a slot of the owner's. Raises what `Uploads.run` raises."""
        check_name(name)

        def begin() -> NewDataset:
            return NewDataset(self._settings, self._store, self._store.add_dataset(name))

        await self._uploads.run(owner, begin, options, chunks)

    async def append(self, name: str, options: InputOptions, owner: str, chunks: AsyncIterator[bytes]) -> None:
        """Add the rows of chunks to a dataset no job uses, in a slot of the owner's. Raises as `upload` does."""

        def begin() -> MoreRows:
            self.with_rows(name)
            return MoreRows(self._settings, self._store, self._store.begin_change(name)["id"])

        await self._uploads.run(owner, begin, options, chunks)

    def remove_block(self, name: str, number: int) -> None:
        """Remove a block of a dataset no job uses. Raises UnknownBlock, LastBlock."""
        self.with_rows(name)
        record = self._store.begin_change(name)
        try:
            remove_block(self.directory(record["id"]), number)
        finally:
            self._store.later(partial(self._store.set_dataset_ready, record["id"]))

    def begin_import(
        self, name: str, file: str, options: InputOptions, machines: int | str | None = None
    ) -> dict[str, Any]:
        """Reserve the name and have a file of the import directory read in, in its turn; the dataset's view.

        Or files of an object store: `file` is a URL or a pattern. How large they are is found out in their turn.
        machines: of a Ray cluster, that read a part of such files each, and keep it; "all" there are.
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
                "machines_range", "machines cannot read a file of this one", "Import a URL such as s3://bucket/part-*."
            )
        else:
            with open_import(self._settings.import_dir, file) as found:
                source["bytes"] = os.fstat(found.fileno()).st_size
        self._store.add_dataset(name, source)
        self._importer.wake()
        return self.view(name)

    def view(self, name: str) -> dict[str, Any]:
        """A dataset as it is shown."""
        record = self._store.dataset(name)
        if record["state"] in ("ready", "changing"):
            directory = self.directory(record["id"])
            return dataset_view(record, read_manifest(directory), profile=read_profile(directory))
        return self._unready_view(record)

    def sample(self, name: str) -> list[dict[str, Any]]:
        """Some rows of a dataset that is ready, see `sample`."""
        record, _ = self.with_rows(name)
        return sample(Dataset(self.directory(record["id"])))

    def views(self) -> list[dict[str, Any]]:
        """All, by name; of those that are ready, no more than that."""
        return [self._unready_view(record) for record in self._store.datasets()]

    def _unready_view(self, record: dict[str, Any]) -> dict[str, Any]:
        progress = read_progress(staged_path(self.directory(record["id"]))) if record["state"] == "ingesting" else None
        return dataset_view(record, None, progress)

    def manifest(self, name: str) -> tuple[dict[str, Any], Manifest]:
        """Record and manifest of a dataset that is ready."""
        record = self._store.dataset(name)
        if record["state"] != "ready":
            raise ServiceError("not_ready", f"dataset {name} is not ready: {record['state']}")
        return record, read_manifest(self.directory(record["id"]))

    def with_rows(self, name: str) -> tuple[dict[str, Any], Manifest]:
        """The same of one whose rows are on this machine. ServiceError dataset_spread."""
        record, manifest = self.manifest(name)
        check_here(manifest)
        return record, manifest

    async def delete(self, name: str) -> None:
        """Forget a dataset and remove its files. What is being uploaded into it is given up."""
        record = self._store.dataset(name)
        await self._uploads.give_up(record["id"])
        await asyncio.to_thread(self._delete, record["id"])

    def _delete(self, dataset_id: str) -> None:
        # Of an upload that was given up nothing is left.
        if self._store.dataset_state(dataset_id) is not None:
            directory = self.directory(dataset_id)
            # Of an import that is under way, the importer removes the files.
            with unrecording(directory):
                self._store.delete_dataset(dataset_id)
            forget(directory, self._settings)

    def directory(self, dataset_id: str) -> Path:
        """Where its files are."""
        return self._settings.datasets / dataset_id
