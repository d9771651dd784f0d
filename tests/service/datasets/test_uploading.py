"""Slots of uploads: each is counted, and found by its dataset, from its beginning to its end."""

import asyncio
from typing import Any

import pytest

from streamsvm.service.datasets.uploading import Uploads
from streamsvm.service.errors import ServiceError


class Adding:
    """An upload of more rows into one dataset, which ends when it is told to."""

    dataset_id = "ds_1"

    def __init__(self) -> None:
        self.ends = asyncio.Event()

    async def read(self, *_: object) -> None:
        await self.ends.wait()

    def is_late(self) -> bool:
        return False


def test_an_upload_that_ends_does_not_hide_the_next_one_into_its_dataset():
    """A dataset can be changed again a moment before the task of the change before has ended."""

    async def both() -> None:
        uploads: Any = Uploads(2)
        first, second = Adding(), Adding()
        running = [
            asyncio.ensure_future(uploads.run(who, lambda each=each: each, None, None))
            for who, each in (("ada", first), ("eve", second))
        ]
        await asyncio.sleep(0)
        first.ends.set()
        await running[0]
        third = asyncio.ensure_future(uploads.run("eve", Adding, None, None))
        with pytest.raises(ServiceError, match="uploads of yours are under way"):
            await third
        assert await uploads.give_up("ds_1")
        with pytest.raises(ServiceError) as caught:
            await running[1]
        assert caught.value.code == "given_up" and not await uploads.give_up("ds_1")

    asyncio.run(both())
