"""The fork server's process: it has loaded Python, the libraries and the compiled kernels, and forks on request.

python -m streamsvm.service.forks.forking    with a socket as its standard input, see fork_server.py
"""

import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from setproctitle import setproctitle

from streamsvm.service.forks.fork_server import MOST_BYTES, fork_server
from streamsvm.storage.machine.child import PARENT_VARIABLE, child_environment, die_with_parent, leave
from streamsvm.storage.rows.csr import load_kernels

_MODULES = (
    "streamsvm.reader.ingest.run",
    "streamsvm.reader.stream.process",
    "streamsvm.trainer.process",
    "streamsvm.trainer.distributed.shard",
)
_FILES = 5  # where to answer, the working directory, and standard input, output and error
_Task = Callable[[], int | None]


class Forking:
    """`serve` does what is asked for: ["fork", command, changes of the environment], "kill" or "load"."""

    def __init__(self) -> None:
        self._asked = socket.socket(fileno=sys.stdin.fileno())
        self._running: dict[int, tuple[int, int]] = {}  # pid -> its handle, and where its exit code is told

    def serve(self) -> _Task | None:
        """Serve until the asking process ends, and return None; in a forked process, return that process's task."""
        while True:
            poll = select.poll()
            for descriptor in (self._asked.fileno(), *(handle for handle, _ in self._running.values())):
                poll.register(descriptor, select.POLLIN)
            ready = {descriptor for descriptor, _ in poll.poll()}
            for pid in [pid for pid, (handle, _) in self._running.items() if handle in ready]:
                self._tell_end(pid)
            if self._asked.fileno() in ready:
                message, files, _, _ = socket.recv_fds(self._asked, MOST_BYTES, _FILES)
                if not message:
                    return None
                what, *request = json.loads(message)
                if what == "load":
                    load_module(*request)
                elif what == "kill" and request[0] in self._running:  # not waited for: no other has its id
                    os.kill(*request)
                elif len(files) == _FILES and (task := self._fork(files, *request)) is not None:
                    return task
                for file in files:
                    os.close(file)

    def _fork(self, files: list[int], command: list[str], changes: dict[str, str | None]) -> _Task | None:
        """Fork; return, in the new process, what it has to do. An error is of this fork: processes that run go on."""
        parent, pid, told = os.getpid(), -1, files[0]
        try:
            pid = os.fork()
            handle = os.pidfd_open(pid) if pid else None
        except OSError as error:
            if pid > 0:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            _tell(told, [None, error.errno])
            return None
        if handle is None:
            _set_environment(changes)  # the thread that asks may be another than that which the server ends with
            self._become((sys.executable, "-m", *command), parent, files)
            return partial(import_module(command[0]).main, *command[1:])
        self._running[pid] = handle, files.pop(0)
        _tell(told, [pid, None])
        return None

    def _become(self, command: Iterable[str], parent: int, files: list[int]) -> None:
        """Make this forked process what `command` would start, with these standard files and working directory."""
        self._asked.detach()
        _, directory, *standard = files
        os.fchdir(directory)
        for number, file in enumerate(standard):
            os.dup2(file, number)
        for file in {*files, *chain(*self._running.values())}:
            os.close(file)
        os.setsid()
        os.environ[PARENT_VARIABLE] = str(parent)
        setproctitle(" ".join(command))

    def _tell_end(self, pid: int) -> None:
        _, status = os.waitpid(pid, 0)
        handle, told = self._running.pop(pid)
        _tell(told, os.waitstatus_to_exitcode(status))
        os.close(handle)
        os.close(told)


def _tell(told: int, message: Any) -> None:
    with suppress(OSError):  # nobody listens any more
        os.write(told, json.dumps(message).encode())


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

    def __init__(self, descriptor: int) -> None:
        environment = child_environment()
        self.pid = os.fork()
        if self.pid == 0:
            os.environ.update(environment)
            _serve_in_a_fork(descriptor)

    def kill(self) -> None:
        """Kill the server, which nobody has waited for yet."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        """Wait until the server has ended."""
        os.waitpid(self.pid, 0)


def serve_here() -> None:
    """Load everything and fork the fork server, which would take another second to load it.

    If libraries have started threads, the server is started anew: a fork would lack these threads.
    """
    load()
    if sum(1 for _ in Path("/proc/self/task").iterdir()) == 1:
        fork_server(LoadedServer)
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
    """Run the process: train a shard in the run directory `directory`."""
    die_with_parent()
    load()
    _serve()


if __name__ == "__main__":
    main()
