"""A program that uses a Ray cluster has to run on one of its nodes: a machine that is none joins it, without a core.

So the service may be anywhere from where nodes can be reached, and they can reach it.
"""

import contextlib
import ctypes
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_OBJECT_BYTES = 256 << 20  # of Ray's store here: what goes to the machines and comes back
_JOIN_SECONDS = 60.0
_POLL_SECONDS = 0.1
_PR_SET_PDEATHSIG = 1
_nodes: list[subprocess.Popen[bytes]] = []  # as long as this process lives


def join(address: str) -> None:
    """Be a node of the cluster at HOST:PORT until this process ends. Raises RuntimeError with what Ray says."""
    if address == "auto" or _is_node(address):
        return
    ray = Path(sys.executable).with_name("ray")
    command = [str(ray), "start", "--address", address, "--num-cpus", "0", "--block", "--disable-usage-stats"]
    command += ["--object-store-memory", str(_OBJECT_BYTES), "--log-style", "record"]
    with tempfile.TemporaryFile() as said:
        node = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, preexec_fn=_end_with_parent
        )
        _nodes.append(node)
        deadline = time.monotonic() + _JOIN_SECONDS
        while not _is_node(address):
            if node.poll() is not None or time.monotonic() > deadline:
                node.terminate()
                node.wait()
                said.seek(0)
                raise RuntimeError(_last_error(said.read().decode(errors="replace")))
            time.sleep(_POLL_SECONDS)


def _is_node(address: str) -> bool:
    """Whether a raylet of the cluster runs on this machine."""
    places = {address.encode(), *_resolved(address)}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"raylet") and any(b"--gcs-address=" + place in words for place in places):
                    return True
    return False


def _resolved(address: str) -> list[bytes]:
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError):
        return [f"{found[4][0]}:{port}".encode() for found in socket.getaddrinfo(host, None, socket.AF_INET)]
    return []


def _end_with_parent() -> None:
    # A kill would leave what it has started.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _last_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if "error" in line.lower()), lines[-1] if lines else "no answer")
