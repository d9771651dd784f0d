"""Connects to a Ray cluster, or says why it cannot. Ray is an extra: streamsvm[ray] installs it.

Only a node of a cluster can use the cluster. A machine that is no node joins the cluster as a node without a core: so
the service may run on any machine that reaches the nodes and that the nodes reach.
"""

import contextlib
import ctypes
import importlib.util
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from streamsvm.service.errors import ServiceError

_INSTALL = 'Install it beside the service, and on every node: pip install "streamsvm[ray]".'
# Codes of errors that another attempt would meet again.
FOR_GOOD = (
    "ray_missing", "ray_address", "ray_version", "ray_unreachable", "ray_token", "ray_tls", "machines_range",
    "node_version", "machine_lost",
)  # fmt: skip
_KNOCK_SECONDS, _HANDSHAKE_SECONDS = 10.0, 2.0
_OBJECT_BYTES = 256 << 20  # of Ray's store here: what goes to the machines and comes back
_JOIN_SECONDS = 60.0
_POLL_SECONDS = 0.1
_PR_SET_PDEATHSIG = 1
_nodes: list[subprocess.Popen[bytes]] = []  # they live as long as this process


def check_ray(address: str | None) -> None:
    """Check that Ray is installed, and that its address is set. Raises ServiceError: ray_missing, ray_address."""
    if importlib.util.find_spec("ray") is None:
        raise ServiceError("ray_missing", "training on several machines needs Ray, which is not installed", _INSTALL)
    if address is None:
        raise ServiceError(
            "ray_address",
            "there is no Ray cluster to train on",
            "Set STREAMSVM_RAY_ADDRESS to HOST:6379, or auto; of the command: --ray.",
        )


def connect(address: str) -> Any:
    """Connect and return ray. Raises ServiceError: ray_missing, ray_version, ray_unreachable, ray_token, ray_tls."""
    check_ray(address)
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        _knock(address, (host, int(port)))
    import ray  # noqa: PLC0415 - an extra, and slow to import

    try:
        join(address)
        ray.init(address=address, log_to_driver=False, configure_logging=False, namespace="streamsvm")
    except Exception as error:
        raise _refused(address, error) from error
    return ray


def nodes_of(ray: Any) -> list[str]:
    """Return the ids, in Ray, of the nodes that are alive and have a core."""
    return [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]


def _knock(address: str, place: tuple[str, int]) -> None:
    """Raise ServiceError ray_unreachable if nobody listens there, ray_tls if TLS differs. Ray would take minutes."""
    try:
        has_tls = _has_tls(socket.create_connection(place, _KNOCK_SECONDS))
    except OSError as error:
        raise _refused(address, error) from error
    is_asked = os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")  # as Ray reads it
    if has_tls is True and not is_asked:
        raise ServiceError(
            "ray_tls",
            "the cluster asks for TLS, which is not set up here",
            "Set RAY_USE_TLS=1, RAY_TLS_SERVER_CERT, RAY_TLS_SERVER_KEY and RAY_TLS_CA_CERT, as on the cluster.",
        )
    if has_tls is False and is_asked:
        raise ServiceError("ray_tls", "the cluster has no TLS, which RAY_USE_TLS asks for", "Unset RAY_USE_TLS.")


def _has_tls(connection: socket.socket) -> bool | None:
    """Return whether the listener begins a TLS handshake; None: that is not clear. Sends nothing secret."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    connection.settimeout(_HANDSHAKE_SECONDS)
    try:
        with connection, context.wrap_socket(connection):
            return True
    except ssl.SSLError as error:
        # A listener that asks for a certificate of ours sends an alert: it has TLS, too.
        return "ALERT" in (error.reason or "")
    except OSError:
        return None


def _refused(address: str, error: Exception) -> ServiceError:
    text = str(error)
    if "version mismatch" in text.lower():
        return ServiceError(
            "ray_version",
            f"the cluster runs another version than Ray {version('ray')} or another Python: {_first_line(text)}",
            "Install the same versions of Ray and Python here and on the nodes.",
        )
    if "token" in text.lower() or "unauthenticated" in text.lower():
        return ServiceError(
            "ray_token",
            "the cluster asks for a token, and there is none or another one here",
            "Set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH, as on the cluster.",
        )
    return ServiceError(
        "ray_unreachable",
        f"there is no Ray cluster at {address}: {_first_line(text)}",
        "Start one with `ray start --head`, and let its port be reached from here.",
    )


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:200] if text.strip() else "no answer"


def join(address: str) -> None:
    """Be a node of the cluster at HOST:PORT until this process ends. Raises RuntimeError with the error of Ray."""
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
    """Return whether a raylet of the cluster runs on this machine."""
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
    # SIGTERM, since SIGKILL would leave the processes that it has started.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _last_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if "error" in line.lower()), lines[-1] if lines else "no answer")
