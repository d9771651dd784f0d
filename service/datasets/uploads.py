"""Bodies of requests that are read in by a child process while they arrive: all of it takes effect, or nothing."""

import asyncio
import os
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path

from reader.ingest.append import appending_path, remove_unlisted_blocks
from reader.options import InputOptions
from service.datasets.ingesting import failure, ingest_command
from service.datasets.pipe import PipeWriter
from service.errors import ServiceError
from service.records.store import Store
from service.records.unrecorded import mark, remove, unmark
from service.settings import Settings
from storage.child import child_environment
from storage.dataset import staged_path
from storage.errors import StorageError


class Upload:
    """`start`, `feed` what arrives, then `finish` or `abandon`. Subclasses say what goes if it is given up."""

    arguments: tuple[str, ...] = ()

    def __init__(self, settings: Settings, store: Store, dataset_id: str) -> None:
        self._settings = settings
        self._store = store
        self._dataset_id = dataset_id
        self._child: asyncio.subprocess.Process | None = None
        self._pipe: PipeWriter | None = None

    async def start(self, options: InputOptions) -> None:
        """Start the process that reads in."""
        self._pipe = PipeWriter()
        try:
            self._child = await asyncio.create_subprocess_exec(
                *ingest_command(self._directory, self._settings, options), *self.arguments,
                stdin=self._pipe.reading, stdout=asyncio.subprocess.PIPE, env=child_environment(),
                start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(self._pipe.reading)

    async def feed(self, chunk: bytes) -> bool:
        """Pass a chunk on, waiting while too much is on its way. False: no more is wanted, `finish` says why."""
        assert self._pipe is not None
        try:
            await self._pipe.feed(chunk)
        except BrokenPipeError:
            return False
        return True

    async def finish(self) -> None:
        """End of input: it is recorded what was made of it, or a ServiceError says what was wrong."""
        assert self._pipe is not None and self._child is not None
        with suppress(BrokenPipeError):
            await self._pipe.close()
        output, _ = await self._child.communicate()
        if self._child.returncode == 0:
            self._store.set_dataset_ready(self._dataset_id)
            unmark(self._directory)
            return
        raise ServiceError.of(failure(self._child.returncode or 0, output).problem())

    async def abandon(self) -> None:
        """Give up: nothing of the upload stays."""
        if self._child is not None and self._child.returncode is None:
            self._child.kill()
            await self._child.wait()
        if self._pipe is not None:
            self._pipe.abandon()
        self._drop()

    def _drop(self) -> None:
        raise NotImplementedError

    @property
    def _directory(self) -> Path:
        return self._settings.datasets / self._dataset_id


class NewDataset(Upload):
    """A body that becomes a dataset."""

    async def start(self, options: InputOptions) -> None:
        # Its child may complete it, and nobody be there any more who says so to the client.
        await asyncio.to_thread(mark, self._directory)
        await super().start(options)

    def _drop(self) -> None:
        shutil.rmtree(staged_path(self._directory), ignore_errors=True)
        remove(self._directory)
        self._store.later(partial(self._store.drop_dataset, self._dataset_id))


class MoreRows(Upload):
    """A body whose rows are added to a dataset, which is marked as changing."""

    arguments = ("--append",)

    def _drop(self) -> None:
        undo_change(self._directory)
        self._store.later(partial(self._store.set_dataset_ready, self._dataset_id))


def undo_change(directory: Path) -> None:
    """Files of a change of this dataset that came to no end."""
    shutil.rmtree(appending_path(directory), ignore_errors=True)
    # A damaged manifest is told when the dataset is used.
    with suppress(StorageError):
        remove_unlisted_blocks(directory)
