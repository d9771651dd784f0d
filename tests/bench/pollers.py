"""A thousand who watch one job: what they wait for an answer, and what the training pays for them."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import psutil

from tests.bench.report import header, prose, row
from tests.contracts.problems import libsvm_text, random_problem
from tests.end_to_end.service import Service

POLLERS = 1000
EVERY_SECONDS = 4.0
_WINDOW_SECONDS = float(os.environ.get("WINDOW", "15"))
_TURNS = 3
_JOB = {"dataset": "data", "bias": None, "tolerance": None, "max_passes": 1_000_000, "cache_bytes": 4 << 20}


def run() -> Iterator[str]:
    """In turn: nobody watches, a thousand do in one of three ways."""
    yield from prose(
        f"{POLLERS} connections watch one job that trains: *polls* ask for it every {EVERY_SECONDS:g} s, *long polls* "
        "wait a second for its next pass, *events* stream it twice a second. Windows of "
        f"{_WINDOW_SECONDS:g} s, {_TURNS} of each in turn with as many in which nobody watches; *training* is "
        "coordinate updates a second over those of the window before, median. Of long polls and events the time beyond "
        "the second or half second counts. The watchers run on the same cores and take about as much of them as the "
        "service. "
        "Targets: no error, 99% of answers within 50 ms, training slowed by less than 5%."
    )
    yield from header(
        "watched by", "answers/s", "median ms", "99% ms", "worst ms", "errors", "service's cores", "training"
    )
    with tempfile.TemporaryDirectory() as directory:
        service = Service(Path(directory))
        try:
            service.start().upload("data", libsvm_text(*random_problem(60_000, 2_000)))
            job = service.submit(**_JOB)
            service.wait_for_pass(job, 8)
            for name, watch in _WATCHERS.items():
                yield row(name, *_measure(service, job, watch))
        finally:
            service.kill()


def _measure(service: Service, job: str, watch: _Watcher) -> list[str]:
    api = psutil.Process(service.processes.one("-m streamsvm.api"))
    ratios, seconds, cores, errors = [], [], [], 0
    for _ in range(_TURNS):
        alone = updates_per_second(service, job, lambda: time.sleep(_WINDOW_SECONDS))
        before, began = sum(api.cpu_times()[:2]), time.monotonic()
        watching = _Watching(service.url, job)
        ratios.append(updates_per_second(service, job, lambda: asyncio.run(watching.run(watch))) / alone)  # noqa: B023
        cores.append((sum(api.cpu_times()[:2]) - before) / (time.monotonic() - began))
        seconds += watching.seconds
        errors += watching.errors
    _, *hundredths = statistics.quantiles(seconds, n=100)
    milliseconds = [f"{1e3 * value:.1f}" for value in (statistics.median(seconds), hundredths[-1], max(seconds))]
    rate = len(seconds) / (_TURNS * _WINDOW_SECONDS)
    return [
        f"{rate:.0f}",
        *milliseconds,
        str(errors),
        f"{statistics.mean(cores):.2f}",
        f"{statistics.median(ratios):.2f}",
    ]


def updates_per_second(service: Service, job: str, during: Callable[[], object]) -> float:
    """Of the training while something goes on. Rows do not stream once the trainer has them all; updates go on.

    Raises AssertionError if the job is not running any more.
    """
    first, began = service.job(job)["progress"]["updates"], time.monotonic()
    during()
    now, seconds = service.job(job), time.monotonic() - began
    assert now["state"] == "running", f"the job is {now['state']}"
    return (now["progress"]["updates"] - first) / seconds


class _Watching:
    """A window: `seconds` an answer took, for each; `errors`."""

    def __init__(self, url: str, job: str) -> None:
        self.seconds: list[float] = []
        self.errors = 0
        self.job = job
        self._address = url.removeprefix("http://").split(":")

    async def run(self, watch: _Watcher) -> None:
        """All of them, who come one after another within the first interval."""
        end = time.monotonic() + _WINDOW_SECONDS
        await asyncio.gather(*(self._one(watch, k * EVERY_SECONDS / POLLERS, end) for k in range(POLLERS)))

    async def _one(self, watch: _Watcher, delay: float, end: float) -> None:
        await asyncio.sleep(delay)
        try:
            reader, writer = await asyncio.open_connection(*self._address)
            try:
                async with asyncio.timeout_at(asyncio.get_running_loop().time() + end - time.monotonic()):
                    await watch(self, reader, writer)
            except TimeoutError:
                pass
            finally:
                writer.close()
        except (OSError, ValueError, asyncio.IncompleteReadError):
            self.errors += 1

    async def ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, query: str = "") -> dict:
        """The job, over a connection that stays."""
        writer.write(f"GET /v1/jobs/{self.job}{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        if not head.startswith("http/1.1 200"):
            raise ValueError(head)
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        return json.loads(await reader.readexactly(length))


_Watcher = Callable[[_Watching, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _poll(watching: _Watching, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        began = time.perf_counter()
        await watching.ask(reader, writer)
        watching.seconds.append(time.perf_counter() - began)
        await asyncio.sleep(EVERY_SECONDS)


async def _long_poll(watching: _Watching, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """How long an answer that has something to say takes shows in polls; here, how long one waits beyond a second."""
    seq = (await watching.ask(reader, writer))["seq"]
    while True:
        began = time.perf_counter()
        found = await watching.ask(reader, writer, f"?wait_seconds=1&after={seq + (1 << 20)}")
        watching.seconds.append(max(0.0, time.perf_counter() - began - 1))
        seq = found["seq"]


async def _stream(watching: _Watching, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """From the end of one batch of events to the next is half a second: what it is more, or less, counts."""
    writer.write(
        f"GET /v1/jobs/{watching.job}/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: {1 << 62}\r\n\r\n".encode()
    )
    await reader.readuntil(b"event: progress")
    began = time.perf_counter()
    while True:
        await reader.readuntil(b"event: progress")
        watching.seconds.append(abs(time.perf_counter() - began - 0.5))
        began = time.perf_counter()


_WATCHERS: dict[str, _Watcher] = {"polls": _poll, "long polls": _long_poll, "events": _stream}
