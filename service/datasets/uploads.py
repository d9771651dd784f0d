"""Uploads: a child process (ingest) reads a request's body while it arrives. All of its rows take effect, or none."""

import asyncio
import fcntl
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

from streamsvm.reader.ingest.append import appending_path, remove_unlisted_blocks
from streamsvm.reader.options import InputOptions
from streamsvm.service.datasets.ingesting import failure, ingest_command, ingest_failed
from streamsvm.service.errors import ServiceError, needing_space
from streamsvm.service.forks.awaited import AwaitedProcess, fork_awaited, undisturbed
from streamsvm.service.records.store import Store
from streamsvm.service.records.unrecorded import mark, remove, unmark
from streamsvm.service.settings import Settings
from streamsvm.service.shares import LEAST_RATE
from streamsvm.storage.blocks.dataset import staged_path
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.errors import StorageError

_PIPE_BYTES = 1 << 20  # the default limit for an unprivileged process (pipe-max-size)
_PIECE_BYTES = 1 << 18  # small enough to be in the processor's cache when it is written
_MOST_PARTS = 512  # IOV_MAX is 1024
# An upload that is this far behind the least rate may be ended for another upload.
_LATE_SECONDS = 5.0


class Upload:
    """One upload. Subclasses record its success, and remove its data if it is given up."""

    arguments: tuple[str, ...] = ()  # arguments of the child process, in addition to those of every upload

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
        """Whether the client is silent, or is more than _LATE_SECONDS behind the least rate for its bytes."""
        waiting = 0.0 if self._waits_since is None else time.monotonic() - self._waits_since
        allowed = self._received / max(LEAST_RATE, self._settings.least_bytes_per_second)
        return self.is_silent() or self._waited + waiting > allowed + _LATE_SECONDS

    async def read(self, options: InputOptions, chunks: AsyncIterator[bytes]) -> None:
        """Read chunks as they arrive, and record their rows; after an error, remove all that was made of the chunks.

        Raises ServiceError for a fault of the input, and what `chunks` raises.
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
        """Send a chunk to the child, waiting while the pipe is full; return False if the child has ended.

        `_finish` then says why. Raises ServiceError ingest_failed if the child has read nothing for stall_seconds. (If
        the client leaves meanwhile, that is noticed only when the chunks that it sent before have been read.)
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
        """End the input, wait for the child and record the rows. Raises ServiceError for a fault of the input."""
        assert self._pipe is not None and self._child is not None
        with suppress(BrokenPipeError):
            await self._pipe.close()
        code, output = await self._child.wait()
        if code != 0:
            raise ServiceError.of(failure(code, output).problem())
        self._record()

    def _record(self) -> None:
        """Record that the rows are on disk. Raises ServiceError given_up if the dataset has been deleted."""
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
        """Remove the files of an upload that is given up, and record that."""
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


def given_up(why: str = "Its dataset was deleted meanwhile.") -> ServiceError:
    """Make the error of an upload that was given up, and say why."""
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


class PipeWriter:
    """Writes to a child process: `feed` chunks, then `close`. Close its end of the pipe, `reading`, once it runs."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()
        # With the usual 64 KiB the process would wait 16 times a megabyte, on busy cores for milliseconds each. The
        # call fails, and the pipe stays small, if this user's pipes are at their limit together.
        with suppress(OSError):
            fcntl.fcntl(self._writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._parts: list[bytes] = []
        self._size = 0
        self._thread = ThreadPoolExecutor(1, "pipe")
        self._under_way: Future[None] | None = None

    async def feed(self, chunk: bytes) -> None:
        """Queue a chunk; wait if the queue is full and earlier chunks are being written. Raises BrokenPipeError."""
        self._parts.append(chunk)
        self._size += len(chunk)
        if self._size >= _PIECE_BYTES or len(self._parts) >= _MOST_PARTS:
            await self._flush()

    async def close(self) -> None:
        """Write the remaining chunks and end the process's input. Raises BrokenPipeError."""
        try:
            await self._flush()
            await self._written()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the pipe now, or when the running write ends; that write fails once the process stops reading."""
        if self._under_way is None or self._under_way.done():
            self._close()
        else:
            self._under_way.add_done_callback(lambda _: self._close())
        self._thread.shutdown(wait=False)

    def _close(self) -> None:
        if self._writing >= 0:
            os.close(self._writing)
        self._writing = -1

    async def _flush(self) -> None:
        await self._written()
        parts, self._parts, self._size = self._parts, [], 0
        self._under_way = self._thread.submit(_write, self._writing, parts)

    async def _written(self) -> None:
        """Wait until the chunks of the last `_flush` are in the pipe. Raises BrokenPipeError."""
        if self._under_way is not None:
            await asyncio.wrap_future(self._under_way)


def _write(descriptor: int, parts: list[bytes]) -> None:
    rest = [memoryview(part) for part in parts]
    while rest:
        written = os.writev(descriptor, rest)
        while rest and written >= len(rest[0]):
            written -= len(rest.pop(0))
        if written:
            rest[0] = rest[0][written:]
