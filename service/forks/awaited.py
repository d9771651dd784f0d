"""Processes that the event loop starts and awaits: forked, since loading the libraries takes a new process a second."""

import asyncio
import os
from collections.abc import Awaitable, Sequence
from contextlib import suppress

from streamsvm.service.forks.fork_server import Forked, fork

_STDERR = 2


class AwaitedProcess:
    """A forked process, and the file with its output. Callers `wait` for its end, or `end` it."""

    def __init__(self, child: Forked, output: int) -> None:
        self._child = child
        self._output = output
        self._is_over = False

    async def wait(self) -> tuple[int, bytes]:
        """Wait until the process has ended; return its exit code, or minus the signal that ended it, and its output."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._child, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._child)
        with self._child:
            code = self._child.wait()
        output = os.pread(self._output, os.fstat(self._output).st_size, 0)
        self._is_over = True
        os.close(self._output)
        return code, output

    async def end(self) -> None:
        """Kill the process, unless it has ended, and wait for its end."""
        if not self._is_over:
            self._child.kill()
            await self.wait()


async def fork_awaited(command: Sequence[str], stdin: int) -> AwaitedProcess:
    """Start a module with arguments, as `python -m *command` does; the process dies with this thread.

    Raises OSError if there is no room for another process. If the caller is cancelled, no process stays.
    """
    output = os.memfd_create("output")
    # In a thread, for a server that is starting answers after a second.
    forking = asyncio.ensure_future(asyncio.to_thread(fork, command, (stdin, output, _STDERR)))
    try:
        return AwaitedProcess(await asyncio.shield(forking), output)
    except BaseException:
        # Another thread passes the files on: they stay open until it has done so.
        await undisturbed(forking)
        if not forking.exception():
            with forking.result() as child:
                child.kill()
        os.close(output)
        raise


async def undisturbed(work: Awaitable[object]) -> None:
    """Wait for the end of the work, even if the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
