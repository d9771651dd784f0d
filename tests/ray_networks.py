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
        self.directory, self._count = directory, count
        self._processes: list[subprocess.Popen] = []
        _ip("link", "add", _BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{_NETWORK}.1/24", "dev", _BRIDGE)
        _ip("link", "set", _BRIDGE, "up")
        with socket.create_server((f"{_NETWORK}.1", 0)) as free:
            port = free.getsockname()[1]
        self.address = f"{_NETWORK}.1:{port}"
        self._start("head", [], "--head", "--port", str(port), "--num-cpus", "0", "--include-dashboard", "false", ip=1)
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
        told = subprocess.run(["ip", "netns", "pids", _name(number)], capture_output=True, text=True, check=True)
        return set(map(int, told.stdout.split()))

    def close(self) -> None:
        """End all of it."""
        for process in self._processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        time.sleep(3)  # their agents end, and what waits for that tidies up
        for number in range(1, self._count + 1):
            for pid in self.pids(number):
                os.kill(pid, signal.SIGKILL)
            _ip("netns", "del", _name(number))
        _ip("link", "del", _BRIDGE)

    def _add(self, number: int) -> None:
        name, end = _name(number), f"{_BRIDGE}-{number}"
        _ip("netns", "add", name)
        _ip("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", end, "master", _BRIDGE, "up")
        for command in (("addr", "add", f"{_NETWORK}.{number + 1}/24", "dev", "eth0"), ("link", "set", "eth0", "up"),
                        ("link", "set", "lo", "up")):  # fmt: skip
            _ip("netns", "exec", name, "ip", *command)
        # A node of its own machine does not see what others keep in /tmp/ray.
        alone = ["ip", "netns", "exec", name, "sh", "-c", 'mount -t tmpfs tmpfs /tmp/ray && exec "$@"', "sh"]
        self._start(f"node{number}", alone, "--address", self.address, "--num-cpus", "1", ip=number + 1)

    def _start(self, name: str, before: list[str], *arguments: str, ip: int) -> None:
        environment = {**os.environ, "STREAMSVM_NODE_DIR": str(self.directory / name)}
        command = [*before, str(Path(sys.executable).with_name("ray")), *_START, *arguments]
        command += ["--node-ip-address", f"{_NETWORK}.{ip}"]
        with (self.directory / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
            )


def _name(number: int) -> str:
    return f"{_BRIDGE}-{number}"


def _ip(*command: str) -> None:
    subprocess.run(["ip", *command], check=True, capture_output=True)
