"""The fork server's process: it has loaded Python, the libraries and the compiled kernels, and forks on request.

python -m streamsvm.service.forks.forking    with a socket as its standard input, see fork_server.py
"""

import errno
import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from setproctitle import setproctitle

from streamsvm.service.forks.fork_server import MOST_BYTES, ForkServer, fork_server, use_fork_server
from streamsvm.storage.machine.child import PARENT_VARIABLE, die_with_parent, leave
from streamsvm.storage.rows.csr import load_kernels

_MODULES = (
    "streamsvm.reader.ingest.run",
    "streamsvm.reader.stream.process",
    "streamsvm.trainer.process",
    "streamsvm.trainer.distributed.shard",
)
_FILES = 4  # standard input, output and error, and the working directory
_Task = Callable[[], int | None]


class Forking:
    """The server's loop: `serve` forks the processes that the asking process requests."""

    def __init__(self) -> None:
        self._asked = socket.socket(fileno=sys.stdin.fileno())
        self._woken, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._numbers: dict[int, int] = {}  # pid -> number of each process that runs
        self._forked = 0

    def serve(self) -> _Task | None:
        """Serve until the asking process ends, and return None; in a forked process, return that process's task."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker)
        while True:
            ready, _, _ = select.select([self._asked.fileno(), self._woken], [], [])
            if self._woken in ready:
                os.read(self._woken, MOST_BYTES)
                self._tell_who_ended()
            if self._asked.fileno() in ready:
                message, files, _, _ = socket.recv_fds(self._asked, MOST_BYTES, _FILES)
                if not message:
                    return None
                command, changes = json.loads(message)
                if changes is None:
                    load_module(*command)
                    continue
                try:
                    task = self._fork(command, changes, files)
                except OSError as error:
                    # Only this fork failed: processes that run go on.
                    self._asked.send(json.dumps([None, None, error.errno]).encode())
                    task = None
                if task is not None:
                    return task
                for file in files:
                    os.close(file)

    def _fork(self, command: list[str], changes: dict[str, str | None], files: list[int]) -> _Task | None:
        """Fork; return the new process's task there, and None here. Raises OSError if the machine cannot fork now."""
        module, *arguments = command
        if len(files) < _FILES:
            raise OSError(errno.EMFILE, "no descriptor is left for its files")
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            _set_environment(changes)  # before `_become`: `changes` may have another PARENT_VARIABLE
            self._become((sys.executable, "-m", *command), parent, files)
            return partial(import_module(module).main, *arguments)
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        self._forked += 1
        self._numbers[pid] = self._forked
        socket.send_fds(self._asked, [json.dumps([self._forked, pid, None]).encode()], [handle])
        os.close(handle)
        return None

    def _become(self, command: Iterable[str], parent: int, files: list[int]) -> None:
        """Make this forked process what `command` would start, with these standard files and working directory."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._asked.detach()
        *standard, directory = files
        os.fchdir(directory)
        for number, file in enumerate(standard):
            os.dup2(file, number)
        for file in (self._woken, self._waker, *files):
            os.close(file)
        os.setsid()
        os.environ[PARENT_VARIABLE] = str(parent)
        setproctitle(" ".join(command))

    def _tell_who_ended(self) -> None:
        while self._numbers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            message = [self._numbers.pop(pid), pid, os.waitstatus_to_exitcode(status)]
            self._asked.send(json.dumps(message).encode())


def _set_environment(changes: dict[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def load() -> None:
    """Load what forked processes need: libraries, modules, kernels."""
    for module in _MODULES:
        import_module(module)
    load_kernels()


def load_module(name: str) -> None:
    """Import a module and call its `load`; if that fails, forked processes start without it."""
    try:
        import_module(name).load()
    except Exception:
        traceback.print_exc()
    gc.freeze()


class LoadedServer:
    """A fork server that is a fork of this process, with the methods of subprocess.Popen."""

    def __init__(self, descriptor: int, environment: Mapping[str, str]) -> None:
        self._code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os.environ.update(environment)
            _serve_in_a_fork(descriptor)

    def poll(self) -> int | None:
        """Return the server's exit code; None while it runs."""
        return self._wait(os.WNOHANG)

    def wait(self) -> None:
        """Wait until the server has ended."""
        self._wait(0)

    def kill(self) -> None:
        """Kill the server, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _wait(self, how: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, how)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code


def serve_here() -> None:
    """Load everything and fork this thread's fork server; a server process started anew would take a second to load.

    If libraries have started threads, the server is started anew: a fork would lack these threads.
    """
    load()
    if sum(1 for _ in Path("/proc/self/task").iterdir()) == 1:
        use_fork_server(ForkServer(LoadedServer))
    else:
        fork_server()


def _serve_in_a_fork(descriptor: int) -> NoReturn:
    """Make this process, just forked, the fork server that `python -m` would start."""
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(descriptor, sys.stdin.fileno())
        os.closerange(sys.stderr.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        setproctitle(" ".join((sys.executable, "-m", "streamsvm.service.forks.forking")))
        die_with_parent()
        _serve()
    except SystemExit as ended:
        leave(ended.code if isinstance(ended.code, int) else 1)
    except BaseException:
        traceback.print_exc()
    leave(1)


def _serve() -> NoReturn:
    """Serve; in a forked process, do the process's task and end."""
    gc.freeze()  # collecting the objects that exist now would copy their pages into each process
    task = Forking().serve()
    code = task() if task else None
    if code:
        sys.exit(code)
    leave()


def main() -> None:
    """Body of the process."""
    die_with_parent()
    load()
    _serve()


if __name__ == "__main__":
    main()
