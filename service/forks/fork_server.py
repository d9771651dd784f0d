"""Asks a process that has loaded Python, the libraries and the compiled kernels to fork processes, see forking.py.

A process that starts from nothing takes 0.7 s to load them. A forked process dies with its fork server, and the server
dies with the process that started it. The fork server of `multiprocessing` is as quick, but it ends, with all processes
that it has forked, when one fork fails or a descriptor is lacking. Here such an error concerns one process only.
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
    """Return whether the descriptor can be read within `timeout` seconds; None: wait until it can.

    This uses poll, since a service has more descriptors than select can wait for.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout is None else 1000 * timeout))


class Forked:
    """A forked process, with the methods of subprocess.Popen: leaving its context waits for its end."""

    def __init__(self, server: "ForkServer", number: int, pid: int, handle: int) -> None:
        self._server = server
        self._number = number
        self._handle = handle
        self._code: int | None = None
        self.pid = pid

    def poll(self) -> int | None:
        """Return the process's exit code, or minus the signal that ended it; None while it runs."""
        if self._code is None:
            self._code = self._server.exit_code(self._number, waits=False)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process's end; return its exit code. Raises subprocess.TimeoutExpired after `timeout` s."""
        if self._code is None:
            if not _has_word(self._handle, timeout):
                assert timeout is not None
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            self._code = self._server.exit_code(self._number, waits=True)
        assert self._code is not None
        return self._code

    def fileno(self) -> int:
        """Return the process's descriptor, which is readable once the process has ended; -1 after its context."""
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
    """Starts a server process and asks it to fork others, until `close`. The server ends with the thread that makes it.

    Other threads may use the server, and the processes that it has forked, until then.

    begin  function that starts the server process with this standard input and environment, and returns its Popen
    """

    def __init__(self, begin: Callable[[int, Mapping[str, str]], Any] = _begin) -> None:
        self._talk = threading.Lock()  # a thread's request and its answer belong together
        self._codes: dict[int, int | None] = {}
        self._is_lost = False  # the server answers no more, though its process may still be ending
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
        """The id of the server process."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether the server answers requests."""
        return not self._is_lost and self._process.poll() is None

    def fork(self, command: Sequence[str], files: Sequence[int]) -> Forked:
        """Start a module with arguments, as `python -m *command` does, with three standard files: input, output, error.

        The process gets the environment and the working directory that this process has now.

        Raises OSError if the server has died, or the machine has no room for another process now.
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
        """Have the server call the module's `load` before the next fork, without waiting for it."""
        with self._talk:
            self._socket.send(json.dumps([[module], None]).encode())

    def exit_code(self, number: int, waits: bool) -> int | None:
        """Return the exit code of the forked process of this number; None while it runs.

        waits   the process has ended: wait until the server reports its exit code
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
        """Return variables of the environment that have changed since the server started; None: removed since."""
        now, before = child_environment(), self._environment
        return {name: now.get(name) for name in now.keys() | before.keys() if now.get(name) != before.get(name)}

    def _learn(self) -> None:
        """Wait until a forked process has ended. If the server has ended, so have all processes that it forked."""
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
    """Return this thread's server, alive or not; None if the thread has none."""
    return _servers.get(threading.current_thread())


def fork_server() -> ForkServer:
    """Return this thread's server, else the main thread's, else a new one, which is started for this thread.

    The server ends with its thread.
    """
    server = known_fork_server() or _servers.get(threading.main_thread())
    if server is None or not server.is_alive():
        close_fork_server()
        server = use_fork_server(ForkServer())
    return server


def use_fork_server(server: ForkServer) -> ForkServer:
    """Make `server` the server of this thread, which has none."""
    with _lock:
        _servers[threading.current_thread()] = server
    return server


@atexit.register
def close_fork_server() -> None:
    """End this thread's server with all processes that it has forked, and servers of threads that have ended."""
    with _lock:
        ended = [thread for thread in _servers if thread is threading.current_thread() or not thread.is_alive()]
        servers = [_servers.pop(thread) for thread in ended]
    for server in servers:
        server.close()


# A forked process must not use its parent's servers: they answer the parent.
os.register_at_fork(after_in_child=_servers.clear)


def fork(command: Sequence[str], files: Sequence[int]) -> Forked:
    """Start a process by this thread's server, see ForkServer.fork."""
    try:
        return fork_server().fork(command, files)
    except (ChildProcessError, ConnectionError):  # the server has just died
        return fork_server().fork(command, files)
