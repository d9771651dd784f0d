"""Asks a process that has loaded Python, the libraries and the compiled kernels to fork processes, see forking.py.

A process that starts from nothing takes 0.7 s to load them. A forked process dies with the one that forks, and that one
with this process. The fork server of `multiprocessing` is as quick, but it ends, with all that it has forked, when one
fork fails or a descriptor is lacking: here that is an error of the one process.

A request has its own pair of sockets, whose other end goes to the server: it answers [pid, error number] there, and
tells the exit code once the process has ended. If the server dies, the socket ends without one.
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
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from streamsvm.storage.machine.child import child_environment

MOST_BYTES = 1 << 16  # of a message


def _has_word(descriptor: int, timeout: float | None) -> bool:
    """Return whether the descriptor can be read within `timeout` seconds; None: wait until it can.

    This uses poll, since a service has more descriptors than select can wait for.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout is None else 1000 * timeout))


class Forked:
    """A forked process, with the methods of subprocess.Popen: leaving its context waits for its end."""

    def __init__(self, server: "ForkServer", pid: int, told: int) -> None:
        self._server, self._told = server, told
        self._code: int | None = None
        self._reading = threading.Lock()
        self.pid = pid

    def poll(self) -> int | None:
        """Return the process's exit code, or minus the signal that ended it; None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process's end; return its exit code. Raises subprocess.TimeoutExpired after `timeout` s."""
        if self._code is None:
            if not _has_word(self._told, timeout):
                assert timeout is not None
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            with self._reading:
                if self._code is None:  # else another thread has read it
                    message = os.read(self._told, MOST_BYTES)
                    self._code = json.loads(message) if message else -signal.SIGKILL  # with its server
        return self._code

    def fileno(self) -> int:
        """Return the process's descriptor, which is readable once the process has ended; -1 after its context."""
        return self._told

    def kill(self) -> None:
        """Kill the process, unless it has ended."""
        self._send(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM to the process."""
        self._send(signal.SIGTERM)

    def _send(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with suppress(ConnectionError):  # the server has died, and the process with it
                self._server.send(["kill", self.pid, number])

    def __enter__(self) -> "Forked":
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        if self._told >= 0:
            os.close(self._told)
            self._told = -1


def _begin(descriptor: int) -> "subprocess.Popen[bytes]":
    """Start a server. The kernel ends it with the thread that starts it: one that lasts as long as this process."""

    def start() -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "streamsvm.service.forks.forking"]
        # A Ctrl-C is for the process that started it, which then ends its children itself.
        return subprocess.Popen(command, stdin=descriptor, env=child_environment(), start_new_session=True)

    if threading.current_thread() is threading.main_thread():
        return start()
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - few processes need it

    _lasting.append(ThreadPoolExecutor(1, "fork-server"))
    return _lasting[-1].submit(start).result()


class ForkServer:
    """Starts the process, and asks it to fork until `close` is called. Any thread may ask.

    begin  starts the process; called as subprocess.Popen is, with a descriptor for the process's standard input
    """

    def __init__(self, begin: Callable[[int], Any] = _begin) -> None:
        self._environment = child_environment()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._process = begin(theirs.fileno())
        except BaseException:
            self._socket.close()
            raise

    @property
    def pid(self) -> int:
        """The id of the server process."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether the server answers requests."""
        return not _has_word(self._socket.fileno(), 0)  # it sends nothing there: this is its end

    def fork(self, command: Sequence[str], files: Sequence[int]) -> Forked:
        """Start a module with arguments, as `python -m *command` does, with three standard files: input, output, error.

        The process gets the environment and the working directory that this process has now.

        Raises OSError if the server has died, or the machine has no room for another process now.
        """
        now, before = child_environment(), self._environment
        changes = {name: now.get(name) for name in now.keys() | before.keys() if now.get(name) != before.get(name)}
        own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                directory = os.open(".", os.O_PATH)
                try:
                    self.send(["fork", command, changes], [theirs.fileno(), directory, *files])
                finally:
                    os.close(directory)
            answer = own.recv(MOST_BYTES)
            if not answer and self.is_alive():
                raise OSError(errno.EMFILE, "the process that forks has no descriptor left for the files")
            if not answer:
                raise ChildProcessError("the process that forks has died")
            pid, error = json.loads(answer)
            if error:
                raise OSError(error, os.strerror(error))
            return Forked(self, pid, own.detach())
        except BaseException:
            own.close()
            raise

    def load(self, module: str) -> None:
        """Have the server call the module's `load` before the next fork, without waiting for it."""
        self.send(["load", module])

    def send(self, request: list[Any], files: Sequence[int] = ()) -> None:
        """Send a request, see `Forking`. Raises OSError."""
        message = json.dumps(request).encode()
        if len(message) > MOST_BYTES:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
        socket.send_fds(self._socket, [message], files)

    def close(self) -> None:
        """Kill the server, and with it the processes that it has forked."""
        self._process.kill()
        self._process.wait()
        self._socket.close()


_server: ForkServer | None = None
_lock = threading.Lock()
_lasting: list[Any] = []  # pools of a thread each, which ends with this process


def fork_server(begin: Callable[[int], Any] = _begin) -> ForkServer:
    """The server of this process; it is started if there is none that is alive."""
    global _server
    with _lock:
        if _server is None or not _server.is_alive():
            _close()
            _server = ForkServer(begin)
        return _server


@atexit.register
def close_fork_server() -> None:
    """End the server, and all that it has forked."""
    with _lock:
        _close()


def _close() -> None:
    global _server
    server, _server = _server, None
    if server is not None:
        server.close()


def _leave_to_parent() -> None:
    """Forget the server in a process that was forked from this one: it is the parent's."""
    global _server, _lock
    _server, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_leave_to_parent)


def fork(command: Sequence[str], files: Sequence[int]) -> Forked:
    """Start a process by this thread's server, see ForkServer.fork."""
    try:
        return fork_server().fork(command, files)
    except (ChildProcessError, ConnectionError):  # the server has just died
        return fork_server().fork(command, files)
