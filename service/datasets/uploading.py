"""Runs uploads, each in a slot that becomes free however the upload ends."""

import asyncio
from collections.abc import AsyncIterator, Callable
from weakref import WeakSet

from streamsvm.reader.options import InputOptions
from streamsvm.service.datasets.uploads import Upload, given_up, too_slow
from streamsvm.service.errors import ServiceError
from streamsvm.service.shares import share_of


class Uploads:
    """At most `most` uploads at a time, and at most a share of them for each owner. Used in one event loop.

    If an upload finds no slot, it ends one that comes too slowly and takes its slot.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        # By upload: the next one into a dataset may begin before the task of the one before has quite ended.
        self._under_way: dict[Upload, tuple[str, Upload, asyncio.Task[None]]] = {}
        self._too_slow = WeakSet[Upload]()

    async def run(
        self, owner: str, begin: Callable[[], Upload], options: InputOptions, chunks: AsyncIterator[bytes]
    ) -> None:
        """Read chunks into the upload that `begin` makes. Cancelling it gives the upload up.

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
            raise too_slow() if upload in self._too_slow else given_up()
        task.result()

    async def give_up(self, dataset_id: str) -> bool:
        """End the upload into this dataset and remove all of it; returns whether there was one."""
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
        """End a late upload, one of the owner's if any of these is late; raise the refusal if none may be ended.

        An owner whose share is used up can only end an upload of their own.
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
