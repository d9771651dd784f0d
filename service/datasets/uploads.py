"""Bodies of requests that are read in by a child process while they arrive: all of it takes effect, or nothing."""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from streamsvm.reader.ingest.append import appending_path, remove_unlisted_blocks
from streamsvm.reader.options import InputOptions
from streamsvm.service.datasets.ingesting import failure, ingest_command, ingest_failed
from streamsvm.service.datasets.pipe import PipeWriter
from streamsvm.service.errors import ServiceError
from streamsvm.service.records.store import Store
from streamsvm.service.records.unrecorded import mark, remove, unmark
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.dataset import staged_path
from streamsvm.storage.errors import StorageError
from streamsvm.storage.machine.child import child_environment

# An upload that has been waited for so much longer than it may take gives its slot to others who ask.
_LATE_SECONDS = 5.0


class Upload:
    """A body that `read` makes rows of. Subclasses say how that is recorded, and what goes if it is given up."""

    arguments: tuple[str, ...] = ()

    def __init__(self, settings: Settings, store: Store, dataset_id: str) -> None:
        self.dataset_id = dataset_id
        self._settings = settings
        self._store = store
        self._child: asyncio.subprocess.Process | None = None
        self._pipe: PipeWriter | None = None
        self._received, self._waited = 0, 0.0
        self._waits_since: float | None = None

    def is_late(self) -> bool:
        """Whether it has come more slowly than least_bytes_per_second, from its beginning on, for some seconds."""
        waiting = 0.0 if self._waits_since is None else time.monotonic() - self._waits_since
        bought = self._received / self._settings.least_bytes_per_second
        return self._waited + waiting > bought + _LATE_SECONDS

    async def read(self, options: InputOptions, chunks: AsyncIterator[bytes]) -> None:
        """Read chunks in as they arrive; it is recorded what was made of them, or nothing of them stays.

        Raises a ServiceError that says what was wrong, and what `chunks` raises.
        """
        try:
            await self._start(options)
            while (chunk := await self._next(chunks)) is not None and await self._feed(chunk):
                pass
            await self._finish()
        except BaseException:
            await _undisturbed(self._abandon())
            raise

    async def _next(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        self._waits_since = begun = time.monotonic()
        chunk = await anext(chunks, None)
        self._waits_since, self._waited = None, self._waited + time.monotonic() - begun
        self._received += len(chunk or b"")
        return chunk

    async def _start(self, options: InputOptions) -> None:
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

    async def _feed(self, chunk: bytes) -> bool:
        """Pass a chunk on, waiting while too much is on its way. False: no more is wanted, `_finish` says why.

        Raises ServiceError ingest_failed if the process has taken nothing for too long. (Its client may have left: that
        is seen only when what it has sent before is read.)
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
        """End of input: it is recorded what was made of it, or a ServiceError says what was wrong."""
        assert self._pipe is not None and self._child is not None
        with suppress(BrokenPipeError):
            await self._pipe.close()
        output, _ = await self._child.communicate()
        if self._child.returncode != 0:
            raise ServiceError.of(failure(self._child.returncode or 0, output).problem())
        self._record()

    def _record(self) -> None:
        """Write down that what was sent is there; raises if it is not, after all."""
        raise NotImplementedError

    async def _abandon(self) -> None:
        """Give up: nothing of the upload stays."""
        if self._child is not None and self._child.returncode is None:
            with suppress(ProcessLookupError):
                self._child.kill()
            await self._child.wait()
        if self._pipe is not None:
            self._pipe.abandon()
        # Beside the event loop: there may be many files.
        await asyncio.to_thread(self._drop)

    def _drop(self) -> None:
        raise NotImplementedError

    @property
    def _directory(self) -> Path:
        return self._settings.datasets / self.dataset_id


class NewDataset(Upload):
    """A body that becomes a dataset."""

    async def _start(self, options: InputOptions) -> None:
        # Its child may complete it, and nobody be there any more who says so to the client.
        await asyncio.to_thread(mark, self._directory)
        await super()._start(options)

    def _record(self) -> None:
        if not self._store.set_dataset_ready(self.dataset_id):
            raise given_up()
        unmark(self._directory)

    def _drop(self) -> None:
        shutil.rmtree(staged_path(self._directory), ignore_errors=True)
        remove(self._directory)
        self._store.later(partial(self._store.drop_dataset, self.dataset_id))


class MoreRows(Upload):
    """A body whose rows are added to a dataset, which is marked as changing."""

    arguments = ("--append",)

    def _record(self) -> None:
        # The dataset has the rows already: told that it has not, who sent them would send them again.
        self._end_change()

    def _drop(self) -> None:
        undo_change(self._directory)
        self._end_change()

    def _end_change(self) -> None:
        self._store.later(partial(self._store.set_dataset_ready, self.dataset_id))


async def _undisturbed(work: Coroutine[Any, Any, None]) -> None:
    """Do it to the end, whoever cancels meanwhile what is given up already."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])


def too_slow() -> ServiceError:
    """Somebody else needs the slot of an upload that does not get on."""
    return ServiceError("too_slow", "the upload came too slowly, and another one waited", "Send it again, faster.")


def given_up() -> ServiceError:
    """Somebody has deleted the dataset of an upload."""
    return ServiceError("given_up", "the upload was given up", "Its dataset was deleted meanwhile.")


def undo_change(directory: Path) -> None:
    """Files of a change of this dataset that came to no end."""
    shutil.rmtree(appending_path(directory), ignore_errors=True)
    # A damaged manifest is told when the dataset is used.
    with suppress(StorageError):
        remove_unlisted_blocks(directory)
