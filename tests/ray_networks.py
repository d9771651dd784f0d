"""A Ray cluster whose nodes have a network namespace each, joined by a bridge: cables can be pulled. Needs root."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

_BRIDGE, _NETWORK = "streamsvm0", "10.77.0"
_ALONE_IN = "ip", "netns", "exec"
# A machine of its own does not see what others keep in /tmp/ray.
_WITHOUT_FILES = "sh", "-c", 'mount -t tmpfs tmpfs /tmp/ray && "$@"', "sh"
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
        self._processes: list[subprocess.Popen] = []
        _ip("link", "add", _BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{_NETWORK}.1/24", "dev", _BRIDGE)
        _ip("link", "set", _BRIDGE, "up")
        with socket.create_server((f"{_NETWORK}.1", 0)) as free:
            port = free.getsockname()[1]
        self.address = f"{_NETWORK}.1:{port}"
        self._start("head", [], "--head", "--port", str(port), "--num-cpus", "0", "--include-dashboard", "false", ip=1)
        self._places = [_name(number) for number in range(1, count + 1)]
        for number in range(1, count + 1):
            self._add(number)

    def cut(self, number: int) -> None:
        """Pull the cable of a node, counted from 1."""
        _ip("link", "set", f"{_BRIDGE}-{number}", "down")

    def mend(self, number: int) -> None:
        """Plug it in again."""
        _ip("link", "set", f"{_BRIDGE}-{number}", "up")

    def pids(self, number: int) -> set[int]:
        """Of all processes on a node."""
        return _pids(_name(number))

    def from_outside(self, *command: object) -> subprocess.CompletedProcess:
        """Run a command on a machine of its own that is no node: it sees neither processes nor files of Ray."""
        name = _name(99)
        self._places.append(name)
        _join_bridge(name, 99)
        alone = [*_ALONE_IN, name, "unshare", "--pid", "--fork", "--mount-proc", *_WITHOUT_FILES]
        return subprocess.run(alone + list(map(str, command)), capture_output=True, text=True, check=False)

    def close(self) -> None:
        """End all of it."""
        for process in self._processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        time.sleep(3)  # their agents end, and what waits for that tidies up
        for name in self._places:
            for pid in _pids(name):
                os.kill(pid, signal.SIGKILL)
            _ip("netns", "del", name)
        _ip("link", "del", _BRIDGE)

    def _add(self, number: int) -> None:
        name = _name(number)
        _join_bridge(name, number + 1)
        alone = [*_ALONE_IN, name, *_WITHOUT_FILES]
        self._start(f"node{number}", alone, "--address", self.address, "--num-cpus", "1", ip=number + 1)

    def _start(self, name: str, before: list[str], *arguments: str, ip: int) -> None:
        environment = {**os.environ, "STREAMSVM_NODE_DIR": str(self.directory / name)}
        command = [*before, str(Path(sys.executable).with_name("ray")), *_START, *arguments]
        command += ["--node-ip-address", f"{_NETWORK}.{ip}"]
        with (self.directory / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
            )


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


def _name(number: int) -> str:
    return f"{_BRIDGE}-{number}"


def _ip(*command: str) -> None:
    subprocess.run(["ip", *command], check=True, capture_output=True)
