"""The service's datasets by name: uploads, imports, changes and deletions, each done whole or not at all."""

import asyncio
import itertools
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np

from streamsvm.reader.ingest.append import remove_block
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.fasta import is_of_strings, letters_of
from streamsvm.reader.parsers.tables.mixed import feature_names
from streamsvm.reader.sources.files import is_url
from streamsvm.service.cluster.dataset.shards import check_here
from streamsvm.service.cluster.nodes.connecting import check_ray
from streamsvm.service.datasets.forgetting import forget, forget_parts, is_gone
from streamsvm.service.datasets.importing import Importer, check_source, open_import
from streamsvm.service.datasets.resuming import ResumableUpload, ResumableUploads
from streamsvm.service.datasets.uploads import MoreRows, NewDataset, Upload, end_change, given_up, undo_change
from streamsvm.service.datasets.views import dataset_view
from streamsvm.service.errors import ServiceError
from streamsvm.service.records.store import Store
from streamsvm.service.records.table import RequestKey
from streamsvm.service.records.unrecorded import is_marked, sweep, unrecording
from streamsvm.service.settings import Settings
from streamsvm.service.shares import share_of
from streamsvm.storage.blocks.dataset import Dataset, read_progress, staged_path
from streamsvm.storage.blocks.manifest import MANIFEST, Manifest, read_manifest, read_profile
from streamsvm.storage.rows.csr import Array, Rows


class Uploads:
    """Runs at most `most` uploads at a time, and at most `share_of(most)` for each owner. Used in one event loop.

    An upload that finds no free slot ends an upload whose client sends too slowly, and takes the slot of that one.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        # The keys are uploads, not datasets: an upload may begin before the last one into its dataset has quite ended.
        self._under_way: dict[Upload, tuple[str, Upload, asyncio.Task[None]]] = {}
        self._too_slow = WeakSet[Upload]()

    async def run(
        self, owner: str, begin: Callable[[], Upload], options: InputOptions, chunks: AsyncIterator[bytes]
    ) -> None:
        """Read chunks into the upload that `begin` makes. Cancelling this call gives the upload up.

        Raises ServiceError too_many_uploads, too_slow, given_up, and what `Upload.read` raises.
        """
        while (refusal := self._refusal(owner)) is not None:
            await self._make_room(refusal, owner)
        upload = begin()
        task = asyncio.ensure_future(upload.read(options, chunks))
        self._under_way[upload] = owner, upload, task
        task.add_done_callback(lambda _: self._under_way.pop(upload))
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            await _ended(task)
            raise
        if task.cancelled():
            if upload in self._too_slow:
                raise ServiceError("too_slow", "the upload came too slowly, and another one waited")
            raise given_up()
        task.result()

    async def give_up(self, dataset_id: str) -> bool:
        """End the upload into this dataset and remove all of its data; return whether there was an upload."""
        tasks = [task for _, upload, task in self._under_way.values() if upload.dataset_id == dataset_id]
        for task in tasks:
            await _ended(task)
        return bool(tasks)

    def _refusal(self, owner: str) -> ServiceError | None:
        owners = [each for each, *_ in self._under_way.values()]
        if owners.count(owner) >= share_of(self._most):
            message = f"{owners.count(owner)} uploads of yours are under way, the others are for other clients"
            return ServiceError("too_many_uploads", message, "Wait for one to end.")
        if len(owners) >= self._most:
            return ServiceError("too_many_uploads", f"{len(owners)} uploads are under way", "Wait for one to end.")
        return None

    async def _make_room(self, refusal: ServiceError, owner: str) -> None:
        """End a late upload, preferably one of the owner's; raise `refusal` if no upload may be ended.

        An owner who uses a full share can only end one of their own uploads.
        """
        late = [each for each in self._under_way.values() if each[1].is_late()]
        of_owner = [each for each in late if each[0] == owner]
        has_share = [each for each, *_ in self._under_way.values()].count(owner) >= share_of(self._most)
        if not (of_owner if has_share else late):
            raise refusal
        _, upload, task = (of_owner or late)[0]
        self._too_slow.add(upload)
        await _ended(task)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


_MOST_ROWS = 10
_MOST_FEATURES = 25
_MOST_LETTERS = 1000
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
        """Clean up after the service's last process: remove unfinished uploads and changes, begin imports again."""
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
        """Start threads that have work but have died; return the names of those that cannot be started now."""
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
        """Reserve the name and read chunks into a new dataset, in a slot of the owner. Raises as `Uploads.run` does.

        The owner's interrupted upload of this name is given up. `begun` is called with the upload when it has a slot.
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
        """Return how many bytes a complete upload has; its id is its dataset's id. None: there is no such upload."""
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
        """Record which request brought new rows: all have arrived, and do not belong to the dataset yet."""
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
        """Reserve the name and queue an import; return the dataset as a dict for JSON.

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
        """Return a dataset in any state as a dict for JSON, see `dataset_view`. Raises ServiceError unknown_dataset."""
        record = self._store.dataset(name)
        if record["state"] in ("ready", "changing"):
            directory = self.directory(record["id"])
            return dataset_view(record, read_manifest(directory), profile=read_profile(directory))
        return self._unready_view(record)

    def sample(self, name: str) -> list[dict[str, Any]]:
        """Describe a few rows of a ready dataset as `_sample` does. Raises ServiceError not_ready, dataset_spread."""
        record, _ = self.with_rows(name)
        return _sample(Dataset(self.directory(record["id"])))

    def views(self) -> list[dict[str, Any]]:
        """Return dicts for JSON of all datasets, sorted by name, with their states but not what their rows are like."""
        return [self._unready_view(record) for record in self._store.datasets()]

    def _unready_view(self, record: dict[str, Any]) -> dict[str, Any]:
        progress = read_progress(staged_path(self.directory(record["id"]))) if record["state"] == "ingesting" else None
        return dataset_view(record, None, progress)

    def manifest(self, name: str) -> tuple[dict[str, Any], Manifest]:
        """Return record and manifest of a ready dataset. Raises ServiceError unknown_dataset, not_ready."""
        record = self._store.dataset(name)
        if record["state"] != "ready":
            raise ServiceError("not_ready", f"dataset {name} is not ready: {record['state']}")
        return record, read_manifest(self.directory(record["id"]))

    def with_rows(self, name: str) -> tuple[dict[str, Any], Manifest]:
        """Return what `manifest` returns. Raises as it does, and dataset_spread if rows are on other machines."""
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
        """Return the directory of a dataset's files."""
        return self._settings.datasets / dataset_id


def _sample(dataset: Dataset) -> list[dict[str, Any]]:
    """Describe up to _MOST_ROWS rows: `label`; then `string` and `letters`, or `non_zeros` and the first `features`.

    A feature has its number in the input, its `name` (None without one) and its `value`. Raises DatasetCorrupt.
    """
    manifest = dataset.manifest
    rows = dataset.piece(dataset.pieces(0)[0]).rows
    ends = rows.indptr[: _MOST_ROWS + 1].tolist()
    parts = list(itertools.pairwise(ends))
    if is_of_strings(manifest.input):
        assert manifest.input is not None
        shown: list[dict[str, Any]] = [_string(rows, *part, manifest.input["length"]) for part in parts]
    else:
        numbers = dataset.numbers[rows.indices[: ends[-1]]]
        names = feature_names(manifest.input, set(numbers.tolist()), manifest.index_base)
        shown = [_features(rows, *part, numbers, names) for part in parts]
    labels = rows.label[: len(parts)].tolist()
    return [{"label": manifest.label_text(label), **row} for label, row in zip(labels, shown, strict=True)]


def _string(rows: Rows, begin: int, end: int, length: int) -> dict[str, Any]:
    string = letters_of(rows.indices[begin:end], rows.values[begin:end], length)
    return {"string": string[:_MOST_LETTERS], "letters": length}


def _features(rows: Rows, begin: int, end: int, numbers: Array, names: dict[int, str]) -> dict[str, Any]:
    first = np.argsort(numbers[begin:end], kind="stable")[:_MOST_FEATURES] + begin
    pairs = zip(numbers[first].tolist(), rows.values[first].tolist(), strict=True)
    features = [{"feature": number, "name": names.get(number), "value": value} for number, value in pairs]
    return {"non_zeros": end - begin, "features": features}
