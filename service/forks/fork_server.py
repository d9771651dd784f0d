"""Forks processes from one that has loaded Python, the libraries and the compiled kernels, see forking.py.

A process that starts from nothing takes 0.7 s to load them. A forked process dies with the one that forks, and that one
with the process that started it. The fork server of `multiprocessing` is as quick, but it ends, with all that it has
forked, when one fork fails or a descriptor is lacking: here that is an error of the one process.
"""

import atexit
import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from streamsvm.storage.machine.child import child_environment

MOST_BYTES = 1 << 16  # of a message


def _has_word(descriptor: int, timeout: float | None) -> bool:
    """Whether it can be read from within so many seconds.

    By poll: a service has more descriptors than select can wait for.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout is None else 1000 * timeout))


class Forked:
    """A process that was forked, used as one of subprocess.Popen: leaving its context waits for its end."""

    def __init__(self, server: "ForkServer", number: int, pid: int, handle: int) -> None:
        self._server = server
        self._number = number
        self._handle = handle
        self._code: int | None = None
        self.pid = pid

    def poll(self) -> int | None:
        """The process's exit code, or minus the signal that ended it; None while it runs."""
        if self._code is None:
            self._code = self._server.exit_code(self._number, waits=False)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; return its exit code. Raises subprocess.TimeoutExpired after so many seconds."""
        if self._code is None:
            if not _has_word(self._handle, timeout):
                assert timeout is not None
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            self._code = self._server.exit_code(self._number, waits=True)
        assert self._code is not None
        return self._code

    def fileno(self) -> int:
        """Its descriptor, which can be read from when it has ended; -1 after its context."""
        return self._handle

    def kill(self) -> None:
        """Kill the process, unless it has ended."""
        self._send(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM to the process."""
        self._send(signal.SIGTERM)

    def _send(self, number: signal.Signals) -> None:
        if self._handle >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def __enter__(self) -> "Forked":
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        if self._handle >= 0:
            os.close(self._handle)
            self._server.forget(self._number)
            self._handle = -1


def _begin(descriptor: int, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "streamsvm.service.forks.forking"]
    # A Ctrl-C is for the process that started it, which then ends its children itself.
    return subprocess.Popen(command, stdin=descriptor, env=environment, start_new_session=True)


class ForkServer:
    """Starts the process and asks it to fork, until `close`. It ends with the thread that it was made on.

    Other threads may use it, and what it has forked, meanwhile.

    begin  starts the process with a descriptor as its standard input, in an environment; used as subprocess.Popen
    """

    def __init__(self, begin: Callable[[int, Mapping[str, str]], Any] = _begin) -> None:
        self._talk = threading.Lock()  # a thread's request and its answer belong together
        self._codes: dict[int, int | None] = {}
        self._is_lost = False  # it answers no more, though its process may still be ending
        self._environment = child_environment()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._process = begin(theirs.fileno(), self._environment)
        except BaseException:
            self._socket.close()
            raise

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether the server answers requests."""
        return not self._is_lost and self._process.poll() is None

    def fork(self, command: Sequence[str], files: Sequence[int]) -> Forked:
        """Start what `python -m` would with this module and its arguments, and with these three standard files.

        The environment and the working directory are those that this process has now.

        Raises OSError if there is no server any more, or the machine has no room for another process now.
        """
        message = json.dumps([command, self._changes()]).encode()
        if len(message) > MOST_BYTES:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
        directory = os.open(".", os.O_PATH)
        try:
            with self._talk:
                return self._ask(message, [*files, directory])
        except (ChildProcessError, ConnectionError):
            self._is_lost = True
            raise
        finally:
            os.close(directory)

    def load(self, module: str) -> None:
        """Have the server call the module's `load` before the next fork; does not wait for it."""
        with self._talk:
            self._socket.send(json.dumps([[module], None]).encode())

    def exit_code(self, number: int, waits: bool) -> int | None:
        """The exit code of the process of this number; None while it runs.

        waits   the process has ended: wait until the server reports it
        """
        with self._talk:
            while self._codes[number] is None and (waits or _has_word(self._socket.fileno(), 0)):
                self._learn()
            return self._codes[number]

    def forget(self, number: int) -> None:
        """Forget the exit code of the process of this number; callers no longer ask for it."""
        self._codes.pop(number, None)

    def close(self) -> None:
        """Kill the server, and with it the processes that it has forked."""
        self._process.kill()
        self._process.wait()
        with self._talk:
            while None in self._codes.values():
                self._learn()
        self._socket.close()

    def _ask(self, request: bytes, files: Sequence[int]) -> Forked:
        socket.send_fds(self._socket, [request], files)
        while True:
            message, handles, _, _ = socket.recv_fds(self._socket, MOST_BYTES, 1)
            if not message:
                raise ChildProcessError("the process that forks has died")
            number, pid, code = json.loads(message)
            if number is None:
                raise OSError(code, os.strerror(code))
            if code is None:
                break
            self._note(number, code)
        if not handles:
            os.kill(pid, signal.SIGKILL)
            raise OSError(errno.EMFILE, "no descriptor is left for another process")
        self._codes[number] = None
        return Forked(self, number, pid, handles[0])

    def _changes(self) -> dict[str, str | None]:
        """Variables of the environment that are not what they were when the server started; None: gone."""
        now, before = child_environment(), self._environment
        return {name: now.get(name) for name in now.keys() | before.keys() if now.get(name) != before.get(name)}

    def _learn(self) -> None:
        """Wait until a process has ended; if the server has, all that it had forked have with it."""
        message = self._socket.recv(MOST_BYTES)
        if message:
            number, _, code = json.loads(message)
            self._note(number, code)
        else:
            self._codes = {number: -signal.SIGKILL if code is None else code for number, code in self._codes.items()}

    def _note(self, number: int, code: int) -> None:
        if number in self._codes:
            self._codes[number] = code


_servers: dict[threading.Thread, ForkServer] = {}  # by the thread that each ends with
_lock = threading.Lock()


def known_fork_server() -> ForkServer | None:
    """The server of this thread, alive or not; None if it has none."""
    return _servers.get(threading.current_thread())


def fork_server() -> ForkServer:
    """The server of this thread, else that of the main thread, else one that is started for this thread.

    It does not outlive the thread that it is of.
    """
    server = known_fork_server() or _servers.get(threading.main_thread())
    if server is None or not server.is_alive():
        close_fork_server()
        server = use_fork_server(ForkServer())
    return server


def use_fork_server(server: ForkServer) -> ForkServer:
    """Have this thread, which has none, use the server."""
    with _lock:
        _servers[threading.current_thread()] = server
    return server


@atexit.register
def close_fork_server() -> None:
    """End that of this thread, and all that it has forked; and what is left of those of threads that have ended."""
    with _lock:
        ended = [thread for thread in _servers if thread is threading.current_thread() or not thread.is_alive()]
        servers = [_servers.pop(thread) for thread in ended]
    for server in servers:
        server.close()


# A forked process must not use its parent's servers: they answer the parent.
os.register_at_fork(after_in_child=_servers.clear)


def fork(command: Sequence[str], files: Sequence[int]) -> Forked:
    """See ForkServer.fork."""
    try:
        return fork_server().fork(command, files)
    except (ChildProcessError, ConnectionError):  # it has just died
        return fork_server().fork(command, files)
