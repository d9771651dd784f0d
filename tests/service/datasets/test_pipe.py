"""A pipe that a thread fills: all bytes in order, bounded memory, no thread or descriptor remains."""

import asyncio
import os
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from streamsvm.service.datasets.uploads import PipeWriter
from tests.end_to_end.service import wait_for

MEBIBYTE = 1 << 20


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = open_files()
    yield
    wait_for(lambda: open_files() == before and not [t for t in threading.enumerate() if t.name.startswith("pipe")])


def read_to_the_end(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


@pytest.mark.parametrize("size", [0, 1, 1000, 65_536, 300_000, 3 * MEBIBYTE])
def test_what_is_fed_comes_out(size):
    data = np.random.default_rng(0).bytes(5 * MEBIBYTE + 17)

    async def run() -> bytes:
        pipe = PipeWriter()
        reading = asyncio.create_task(asyncio.to_thread(read_to_the_end, pipe.reading))
        for start in range(0, len(data), size or len(data)):
            await pipe.feed(data[start : start + size] if size else data)
        await pipe.close()
        return await reading

    if size == 1:
        data = data[:5000]  # so many parts are written before they are a piece
    assert asyncio.run(run()) == data


def test_who_feeds_waits_for_who_reads():
    async def run() -> int:
        pipe, fed = PipeWriter(), 0
        try:
            with suppress(TimeoutError):
                while fed < 16 * MEBIBYTE:
                    await asyncio.wait_for(pipe.feed(bytes(100_000)), 0.5)
                    fed += 100_000
        finally:
            os.close(pipe.reading)
            pipe.abandon()
        return fed

    assert asyncio.run(run()) < 3 * MEBIBYTE


@pytest.mark.parametrize("fed", [1000, 4 * MEBIBYTE])
def test_nobody_reads_any_more(fed):
    async def run() -> None:
        pipe = PipeWriter()
        os.close(pipe.reading)
        with pytest.raises(BrokenPipeError):
            await pipe.feed(bytes(fed))
            await pipe.close()
        pipe.abandon()

    asyncio.run(run())


def test_given_up_it_holds_no_file_any_more():
    async def run() -> None:
        before = open_files()
        pipe = PipeWriter()
        os.close(pipe.reading)
        pipe.abandon()
        assert open_files() == before

    asyncio.run(run())
