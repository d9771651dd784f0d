"""Processes that the event loop awaits: their output and their end; a caller that is cancelled leaves none."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from streamsvm.service.forks.awaited import fork_awaited
from streamsvm.service.forks.fork_server import close_fork_server
from tests.end_to_end.service import is_running, wait_for

TASKS = "tests.service.forked"


@pytest.fixture(scope="module", autouse=True)
def _server_that_finds_tests():
    close_fork_server()  # one of a test before may have begun elsewhere, where there are no tests to import


async def forked(directory: Path, task: str):
    (directory / "task").write_text(task)
    with Path(os.devnull).open("rb") as nothing:
        return await fork_awaited([TASKS, str(directory)], nothing.fileno())


def pid_of(directory: Path) -> int:
    """The id of the process that sleeps, once it does."""
    began = directory / "began"
    return int(wait_for(lambda: began.exists() and began.read_text()).split()[0])


@pytest.mark.parametrize(("task", "ended"), [("print", (0, b"\n")), ("exit", (7, b"")), ("return", (8, b""))])
def test_its_end_is_its_code_and_its_output(tmp_path, task, ended):
    async def wait():
        return await (await forked(tmp_path, task)).wait()

    assert asyncio.run(wait()) == ended


def test_one_that_is_ended_has_been_killed(tmp_path):
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())

    async def end():
        child = await forked(tmp_path, "sleep")
        pid = await asyncio.to_thread(pid_of, tmp_path)
        waiting = asyncio.ensure_future(child.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        await child.end()
        await child.end()  # and again: nothing
        return pid

    assert not is_running(asyncio.run(end()))
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == before


def test_a_caller_that_is_cancelled_while_it_starts_leaves_none(tmp_path):
    close_fork_server()  # the next one takes its time to load

    async def leave():
        starting = asyncio.ensure_future(forked(tmp_path, "sleep"))
        await asyncio.sleep(0.01)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(leave())
    began = tmp_path / "began"
    assert not (began.exists() and is_running(int(began.read_text().split()[0])))


def test_one_whose_server_dies_has_died(tmp_path):
    async def lose():
        child = await forked(tmp_path, "sleep")
        await asyncio.to_thread(pid_of, tmp_path)
        os.kill(int((tmp_path / "began").read_text().split()[1]), signal.SIGKILL)
        return await child.wait()

    assert asyncio.run(lose()) == (-signal.SIGKILL, b"")
