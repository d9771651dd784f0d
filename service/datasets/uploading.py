"""Uploads that are under way, each in a slot of its owner's, which is free again in every way out."""

import asyncio
from collections.abc import AsyncIterator, Callable

from streamsvm.reader.options import InputOptions
from streamsvm.service.datasets.uploads import Upload, given_up
from streamsvm.service.errors import ServiceError
from streamsvm.service.shares import share_of


class Uploads:
    """At most so many at a time, and a share of them for each owner. Used in one event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._under_way: dict[str, tuple[str, asyncio.Task[None]]] = {}

    async def run(
        self, owner: str, begin: Callable[[], Upload], options: InputOptions, chunks: AsyncIterator[bytes]
    ) -> None:
        """Read chunks into the upload that `begin` makes. Cancelling it gives the upload up.

        Raises ServiceError too_many_uploads, given_up, and what `Upload.read` raises.
        """
        self._check(owner)
        upload = begin()
        task = asyncio.ensure_future(upload.read(options, chunks))
        self._under_way[upload.dataset_id] = owner, task
        task.add_done_callback(lambda _: self._under_way.pop(upload.dataset_id))
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            await _ended(task)
            raise
        if task.cancelled():
            raise given_up()
        task.result()

    async def give_up(self, dataset_id: str) -> bool:
        """End the upload into this dataset, if there is one; whether there was. Nothing of it is left afterwards."""
        if dataset_id not in self._under_way:
            return False
        await _ended(self._under_way[dataset_id][1])
        return True

    def _check(self, owner: str) -> None:
        owners = [each for each, _ in self._under_way.values()]
        if len(owners) >= self._most:
            raise ServiceError("too_many_uploads", f"{len(owners)} uploads are under way", "Wait for one to end.")
        if owners.count(owner) >= share_of(self._most):
            message = f"{owners.count(owner)} uploads of yours are under way, the others are for other clients"
            raise ServiceError("too_many_uploads", message, "Wait for one to end.")


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
