"""A Ray cluster whose nodes have a network namespace each, joined by a bridge: cables can be pulled. Needs root."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_BRIDGE, _NETWORK = "streamsvm0", "10.77.0"
_ALONE_IN = "ip", "netns", "exec"
# A machine of its own does not see what others keep in /tmp/ray.
_WITHOUT_FILES = "sh", "-c", 'mount -t tmpfs tmpfs /tmp/ray && "$@"', "sh"
# A node that is silent for some 30 seconds counts as dead; by default it is twice as long.
_DEAD_AFTER = {
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "15",
}
_STARTED = "Ray runtime started."  # as Ray says it
_START = (
    "start", "--block", "--disable-usage-stats", "--object-store-memory", str(200 << 20), "--log-style", "record",
)  # fmt: skip


def reason_unusable() -> str | None:
    """Why there can be none here, or None."""
    if os.geteuid() or shutil.which("ip") is None:
        return "needs root, and ip of iproute2"
    if subprocess.run(["ip", "netns", "add", "streamsvm-probe"], capture_output=True, check=False).returncode:
        return "may not make network namespaces"
    _ip("netns", "del", "streamsvm-probe")
    return None


class NetworkNodes:
    """A head that does not train, and so many nodes that do; `close` ends them."""

    def __init__(self, directory: Path, count: int) -> None:
        self.directory = directory
        self._processes: dict[str, subprocess.Popen] = {}
        _ip("link", "add", _BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{_NETWORK}.1/24", "dev", _BRIDGE)
        _ip("link", "set", _BRIDGE, "up")
        with socket.create_server((f"{_NETWORK}.1", 0)) as free:
            port = free.getsockname()[1]
        self.address = f"{_NETWORK}.1:{port}"
        self._start("head", [], "--head", "--port", str(port), "--num-cpus", "0", "--include-dashboard", "false", ip=1)
        self._places = [_name(number) for number in range(1, count + 1)]
        for number in range(1, count + 1):
            _join_bridge(_name(number), number + 1)
            self._begin(number)

    @property
    def directories(self) -> list[Path]:
        """Of the nodes."""
        return [self.directory / f"node{number}" for number in range(1, len(self._processes))]

    def cut(self, number: int) -> None:
        """Pull the cable of a node, counted from 1."""
        _ip("link", "set", f"{_BRIDGE}-{number}", "down")

    def mend(self, number: int) -> None:
        """Plug it in again."""
        _ip("link", "set", f"{_BRIDGE}-{number}", "up")

    def pids(self, number: int) -> set[int]:
        """Of all processes on a node."""
        return _pids(_name(number))

    @contextlib.contextmanager
    def paused(self, number: int) -> Iterator[None]:
        """All processes of a node are stopped for a while."""
        pids = self.pids(number)
        _signal(pids, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal(pids, signal.SIGCONT)

    def begin_anew(self, number: int) -> None:
        """Wait until a node that counts as dead has ended by itself, and begin it again, with its directory."""
        self._processes[f"node{number}"].wait(60)
        _wait(lambda: not self.pids(number), "its processes do not end")
        log = self.directory / f"node{number}.log"
        before = log.read_text().count(_STARTED)
        self._begin(number)
        _wait(lambda: log.read_text().count(_STARTED) > before, "it does not start")

    def from_outside(self, *command: object) -> subprocess.CompletedProcess:
        """Run a command on a machine of its own that is no node: it sees neither processes nor files of Ray."""
        name = _name(99)
        self._places.append(name)
        _join_bridge(name, 99)
        alone = [*_ALONE_IN, name, "unshare", "--pid", "--fork", "--mount-proc", *_WITHOUT_FILES]
        return subprocess.run(alone + list(map(str, command)), capture_output=True, text=True, check=False)

    def close(self) -> None:
        """End all of it."""
        for name in self._processes:
            self._end(name)
        time.sleep(3)  # their agents end, and what waits for that tidies up
        for name in self._places:
            _signal(_pids(name), signal.SIGKILL)
            _ip("netns", "del", name)
        _ip("link", "del", _BRIDGE)

    def _begin(self, number: int) -> None:
        alone = [*_ALONE_IN, _name(number), *_WITHOUT_FILES]
        self._start(f"node{number}", alone, "--address", self.address, "--num-cpus", "1", ip=number + 1)

    def _start(self, name: str, before: list[str], *arguments: str, ip: int) -> None:
        environment = {**os.environ, **_DEAD_AFTER, "STREAMSVM_NODE_DIR": str(self.directory / name)}
        command = [*before, str(Path(sys.executable).with_name("ray")), *_START, *arguments]
        command += ["--node-ip-address", f"{_NETWORK}.{ip}"]
        with (self.directory / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def _end(self, name: str) -> None:
        process = self._processes[name]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _join_bridge(name: str, host: int) -> None:
    _ip("netns", "add", name)
    _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
    _ip("link", "set", name, "master", _BRIDGE, "up")
    for command in (("addr", "add", f"{_NETWORK}.{host}/24", "dev", "eth0"), ("link", "set", "eth0", "up"),
                    ("link", "set", "lo", "up"), ("route", "add", "default", "via", f"{_NETWORK}.1")):  # fmt: skip
        _ip("netns", "exec", name, "ip", *command)


def _pids(name: str) -> set[int]:
    told = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=True)
    return set(map(int, told.stdout.split()))


def _wait(condition: Callable[[], bool], complaint: str) -> None:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < 60, complaint
        time.sleep(0.1)


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _name(number: int) -> str:
    return f"{_BRIDGE}-{number}"


def _ip(*command: str) -> None:
    subprocess.run(["ip", *command], check=True, capture_output=True)
