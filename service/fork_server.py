"""A process in which Python, the libraries and the compiled kernels are loaded; it forks the readers and trainers.

    python -m service.fork_server    with a socket as its standard input

One that starts from nothing takes 0.7 s to load them. What is forked dies with this process, and it with the one that
started it.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
from setproctitle import setproctitle

from storage.child import PARENT_VARIABLE, child_environment, die_with_parent, leave
from trainer.kernels.order import permutation

_MODULES = ("reader.process", "trainer.process")
_MOST_BYTES = 1 << 16  # of a message


class Forked:
    """A process that was forked, used as one of subprocess.Popen."""

    def __init__(self, server: "ForkServer", number: int, pid: int, handle: int) -> None:
        self._server = server
        self._number = number
        self._handle = handle
        self.pid = pid

    def poll(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None while it runs."""
        return self._server.exit_code(self._number, waits=False)

    def wait(self) -> None:
        """Until it has ended."""
        self._server.exit_code(self._number, waits=True)

    def kill(self) -> None:
        """End it, if it has not ended."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def __del__(self) -> None:
        os.close(self._handle)


class ForkServer:
    """Starts the process and asks it to fork. It ends with the thread that it was made on."""

    def __init__(self) -> None:
        self._codes: dict[int, int | None] = {}
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "service.fork_server"],
                stdin=theirs.fileno(),
                env=child_environment(),
                # A Ctrl-C is for the process that started it, which then ends its children itself.
                start_new_session=True,
            )

    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def fork(self, module: str, run: Path, output: int, log: int) -> Forked:
        """A process that does what `python -m module run` does; output and errors go to these descriptors.

        Raises OSError if there is no server any more.
        """
        socket.send_fds(self._socket, [json.dumps([module, str(run)]).encode()], [output, log])
        handles: list[int] = []
        while not handles:
            message, handles, _, _ = socket.recv_fds(self._socket, _MOST_BYTES, 1)
            if not message:
                raise ChildProcessError("the process that forks has died")
            number, pid, code = json.loads(message)
            self._codes[number] = code
        return Forked(self, number, pid, handles[0])

    def exit_code(self, number: int, waits: bool) -> int | None:
        """Of the process of this number; None while it runs."""
        while self._codes[number] is None and (waits or select.select([self._socket], [], [], 0)[0]):
            self._learn()
        return self._codes[number]

    def close(self) -> None:
        """End it, and all that it has forked."""
        self._process.kill()
        self._process.wait()
        while None in self._codes.values():
            self._learn()
        self._socket.close()

    def _learn(self) -> None:
        """Wait until a process has ended; if the server has, all that it had forked have with it."""
        message = self._socket.recv(_MOST_BYTES)
        if message:
            number, _, code = json.loads(message)
            self._codes[number] = code
        else:
            self._codes = {number: -signal.SIGKILL if code is None else code for number, code in self._codes.items()}


_server: ForkServer | None = None


def fork_server() -> ForkServer:
    """That of this process, which is started if there is none."""
    global _server
    if _server is None or not _server.is_alive():
        close_fork_server()
        _server = ForkServer()
    return _server


@atexit.register
def close_fork_server() -> None:
    """End that of this process, and all that it has forked."""
    global _server
    if _server is not None:
        _server.close()
        _server = None


def fork(module: str, run: Path, output: int, log: int) -> Forked:
    """See ForkServer.fork."""
    try:
        return fork_server().fork(module, run, output, log)
    except OSError:  # it has just died
        return fork_server().fork(module, run, output, log)


class _Forking:
    """The server: `serve` forks what is asked for."""

    def __init__(self) -> None:
        self._asked = socket.socket(fileno=sys.stdin.fileno())
        self._woken, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._numbers: dict[int, int] = {}  # of the processes that run, by pid
        self._forked = 0

    def serve(self) -> Callable[[], object] | None:
        """Until nobody is left to ask; in a process that was forked, what it has to do."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker)
        while True:
            ready, _, _ = select.select([self._asked.fileno(), self._woken], [], [])
            if self._woken in ready:
                os.read(self._woken, _MOST_BYTES)
                self._tell_who_ended()
            if self._asked.fileno() in ready:
                message, files, _, _ = socket.recv_fds(self._asked, _MOST_BYTES, 2)
                if not message:
                    return None
                module, run = json.loads(message)
                task = self._fork(module, Path(run), files)
                if task is not None:
                    return task

    def _fork(self, module: str, run: Path, files: list[int]) -> Callable[[], object] | None:
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            self._become(f"{sys.executable} -m {module} {run}", parent, files)
            return partial(import_module(module).main, run)
        self._forked += 1
        self._numbers[pid] = self._forked
        handle = os.pidfd_open(pid)
        socket.send_fds(self._asked, [json.dumps([self._forked, pid, None]).encode()], [handle])
        for file in (handle, *files):
            os.close(file)
        return None

    def _become(self, title: str, parent: int, files: list[int]) -> None:
        """What a process that was started, not forked, would be."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._asked.detach()
        with Path(os.devnull).open() as nothing:
            for number, file in enumerate([nothing.fileno(), *files]):
                os.dup2(file, number)
        for file in (self._woken, self._waker, *files):
            os.close(file)
        os.setsid()
        os.environ[PARENT_VARIABLE] = str(parent)
        setproctitle(title)

    def _tell_who_ended(self) -> None:
        while self._numbers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            message = [self._numbers.pop(pid), pid, os.waitstatus_to_exitcode(status)]
            self._asked.send(json.dumps(message).encode())


def main() -> None:
    """Body of the process."""
    die_with_parent()
    for module in _MODULES:
        import_module(module)
    permutation(1, np.empty(1, np.int32))  # the first of the kernels takes a third of a second, whichever it is
    gc.freeze()  # what is there stays: to look through it would copy it into each process
    task = _Forking().serve()
    if task is not None:
        task()
    leave()


if __name__ == "__main__":
    main()
