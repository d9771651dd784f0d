"""Uploads: a child process reads a request's body in while it arrives. All of the body takes effect, or nothing."""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from streamsvm.reader.ingest.append import appending_path, remove_unlisted_blocks
from streamsvm.reader.options import InputOptions
from streamsvm.service.datasets.ingesting import failure, ingest_command, ingest_failed
from streamsvm.service.datasets.pipe import PipeWriter
from streamsvm.service.errors import ServiceError, needing_space
from streamsvm.service.processes.awaited import AwaitedProcess, fork_awaited, undisturbed
from streamsvm.service.records.store import Store
from streamsvm.service.records.unrecorded import mark, remove, unmark
from streamsvm.service.settings import Settings
from streamsvm.service.shares import LEAST_RATE
from streamsvm.storage.blocks.dataset import staged_path
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.errors import StorageError

# An upload this much behind its least rate may be ended for another one.
_LATE_SECONDS = 5.0


class Upload:
    """One upload. Subclasses say how its success is recorded, and what is removed if it is given up."""

    arguments: tuple[str, ...] = ()  # of the child process, besides those of every upload

    def __init__(self, settings: Settings, store: Store, dataset_id: str) -> None:
        self.dataset_id = dataset_id
        self._settings = settings
        self._store = store
        self._child: AwaitedProcess | None = None
        self._pipe: PipeWriter | None = None
        self._received, self._waited = 0, 0.0
        self._waits_since: float | None = None
        self.is_silent: Callable[[], bool] = lambda: False  # whether its client has been away for long

    def is_late(self) -> bool:
        """Whether the client is away for long, or was waited for _LATE_SECONDS longer than its bytes may take."""
        waiting = 0.0 if self._waits_since is None else time.monotonic() - self._waits_since
        allowed = self._received / max(LEAST_RATE, self._settings.least_bytes_per_second)
        return self.is_silent() or self._waited + waiting > allowed + _LATE_SECONDS

    async def read(self, options: InputOptions, chunks: AsyncIterator[bytes]) -> None:
        """Read chunks in as they arrive, and record the rows; after an error, remove all that was made of them.

        Raises ServiceError for what was wrong with the input, and what `chunks` raises.
        """
        try:
            with needing_space():
                await self._start(options)
                while (chunk := await self._next(chunks)) is not None:
                    if not await self._feed(chunk):
                        break
                await self._finish()
        except BaseException:
            await undisturbed(self._abandon())
            raise

    async def _next(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        self._waits_since = begun = time.monotonic()
        chunk = await anext(chunks, None)
        self._waits_since, self._waited = None, self._waited + time.monotonic() - begun
        self._received += len(chunk or b"")
        return chunk

    async def _start(self, options: InputOptions) -> None:
        """Start the child process."""
        self._pipe = PipeWriter()
        try:
            command = [*ingest_command(self._directory, self._settings, options), *self.arguments]
            self._child = await fork_awaited(command, self._pipe.reading)
        finally:
            os.close(self._pipe.reading)

    async def _feed(self, chunk: bytes) -> bool:
        """Send a chunk to the child, waiting while the pipe is full. False if the child has ended: `_finish` says why.

        Raises ServiceError ingest_failed if the child has read nothing for stall_seconds. (A client that leaves
        meanwhile is noticed only when the chunks that it sent before are read.)
        """
        assert self._pipe is not None
        try:
            async with asyncio.timeout(self._settings.stall_seconds):
                await self._pipe.feed(chunk)
        except BrokenPipeError:
            return False
        except TimeoutError:
            raise ingest_failed() from None
        return True

    async def _finish(self) -> None:
        """End the input, wait for the child and record the rows; raises ServiceError for what was wrong."""
        assert self._pipe is not None and self._child is not None
        with suppress(BrokenPipeError):
            await self._pipe.close()
        code, output = await self._child.wait()
        if code != 0:
            raise ServiceError.of(failure(code, output).problem())
        self._record()

    def _record(self) -> None:
        """Record that the rows are on disk; raises ServiceError if they are no longer wanted."""
        raise NotImplementedError

    async def _abandon(self) -> None:
        """Kill the child process and remove the files of the upload."""
        if self._child is not None:
            await self._child.end()
        if self._pipe is not None:
            self._pipe.abandon()
        # In a thread, for removing many files takes time.
        await asyncio.to_thread(self._drop)

    def _drop(self) -> None:
        """Remove the files and the record of an upload that is given up."""
        raise NotImplementedError

    @property
    def _directory(self) -> Path:
        return self._settings.datasets / self.dataset_id


class NewDataset(Upload):
    """An upload that makes a new dataset."""

    _marking: asyncio.Future[None] | None = None

    async def _start(self, options: InputOptions) -> None:
        # If the service dies now, the child may still complete a dataset that no client was told of: the mark has it
        # removed at the next start.
        self._marking = asyncio.ensure_future(asyncio.to_thread(mark, self._directory))
        await asyncio.shield(self._marking)
        await super()._start(options)

    async def _abandon(self) -> None:
        if self._marking is not None:  # a thread that is cancelled goes on: it would leave the mark behind
            await asyncio.wait([self._marking])
        await super()._abandon()

    def _record(self) -> None:
        if not self._store.set_dataset_ready(self.dataset_id):
            raise given_up()
        unmark(self._directory)

    def _drop(self) -> None:
        shutil.rmtree(staged_path(self._directory), ignore_errors=True)
        remove(self._directory)
        self._store.later(partial(self._store.drop_dataset, self.dataset_id))


class MoreRows(Upload):
    """An upload that adds rows to a dataset whose state is `changing`."""

    arguments = ("--append",)

    def _record(self) -> None:
        # The rows are in the dataset: an error now would make the client send them again. So the record may come later.
        self._end_change()

    def _drop(self) -> None:
        undo_change(self._directory)
        self._end_change()

    def _end_change(self) -> None:
        self._store.later(partial(end_change, self._store, self._directory))


def too_slow() -> ServiceError:
    """The error of an upload that was ended for another one because it came too slowly."""
    return ServiceError("too_slow", "the upload came too slowly, and another one waited")


def given_up(why: str = "Its dataset was deleted meanwhile.") -> ServiceError:
    """The error of an upload whose dataset was deleted meanwhile, or that ended for another reason."""
    return ServiceError("given_up", "the upload was given up", why)


def end_change(store: Store, directory: Path) -> None:
    """Record that the change of the dataset in this directory has ended, whether it took effect or not."""
    uid = None
    # A damaged manifest is reported when the dataset is used.
    with suppress(StorageError):
        uid = read_manifest(directory).uid
    store.end_change(directory.name, uid)


def undo_change(directory: Path) -> None:
    """Remove the files of an unfinished change of the dataset in this directory."""
    shutil.rmtree(appending_path(directory), ignore_errors=True)
    # A damaged manifest is reported when the dataset is used.
    with suppress(StorageError):
        remove_unlisted_blocks(directory)
