"""Slots of uploads: each is counted, and found by its dataset, from its beginning to its end."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from streamsvm.reader.options import InputOptions
from streamsvm.service.datasets.registry import Uploads
from streamsvm.service.datasets.uploads import NewDataset
from streamsvm.service.errors import ServiceError
from streamsvm.service.records.store import Store
from streamsvm.service.records.unrecorded import mark
from streamsvm.service.settings import Settings


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


def test_an_upload_that_is_given_up_while_its_mark_is_written_leaves_none(tmp_path, monkeypatch):
    has_begun, may_end = threading.Event(), threading.Event()

    def slowly(directory: Path) -> None:
        has_begun.set()
        may_end.wait(60.0)
        mark(directory)

    monkeypatch.setattr("streamsvm.service.datasets.uploads.mark", slowly)
    settings = Settings(tmp_path, tmp_path)
    settings.datasets.mkdir(exist_ok=True)
    store = Store(settings.database)
    upload = NewDataset(settings, store, store.add_dataset("d"))

    async def given_up() -> None:
        reading = asyncio.ensure_future(upload.read(InputOptions(), iter_chunks()))
        await asyncio.to_thread(has_begun.wait, 60.0)
        reading.cancel()
        await asyncio.sleep(0)
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(given_up())
    assert list(settings.datasets.iterdir()) == []
    assert not store.datasets()


async def iter_chunks() -> AsyncIterator[bytes]:
    yield b"1 1:1\n"
