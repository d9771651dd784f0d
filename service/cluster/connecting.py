"""A connection to a Ray cluster, or why there is none. Ray is not installed with the rest: streamsvm[ray]."""

import importlib.util
import socket
from importlib.metadata import version
from pathlib import Path
from typing import Any

from service.cluster.joining import join
from service.errors import ServiceError

_INSTALL = 'Install it beside the service, and on every node: pip install "streamsvm[ray]".'
ROOT_VARIABLE = "STREAMSVM_NODE_DIR"  # of a node's environment: where its blocks are
# No attempt after this one would fare better.
FOR_GOOD = (
    "ray_missing", "ray_address", "ray_version", "ray_unreachable", "ray_token", "machines_range", "node_version",
    "machine_lost",
)  # fmt: skip
_KNOCK_SECONDS = 10.0
DEFAULT_ROOT = Path("/var/tmp/streamsvm")


def check_ray(address: str | None) -> None:
    """Raises ServiceError: ray_missing, ray_address."""
    if importlib.util.find_spec("ray") is None:
        raise ServiceError("ray_missing", "training on several machines needs Ray, which is not installed", _INSTALL)
    if address is None:
        raise ServiceError(
            "ray_address",
            "there is no Ray cluster to train on",
            "Set STREAMSVM_RAY_ADDRESS to HOST:6379, or auto; of the command: --ray.",
        )


def connect(address: str) -> Any:
    """The module ray, connected. Raises ServiceError: ray_missing, ray_version, ray_unreachable, ray_token."""
    check_ray(address)
    _knock(address)
    import ray  # noqa: PLC0415 - an extra, and slow to import

    try:
        join(address)
        ray.init(address=address, log_to_driver=False, configure_logging=False, namespace="streamsvm")
    except Exception as error:
        raise _refused(address, error) from error
    return ray


def nodes_of(ray: Any) -> list[str]:
    """The nodes that are there and have a core, by the id that Ray gives them."""
    return [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]


def _knock(address: str) -> None:
    """Raises ServiceError ray_unreachable if nobody listens there: Ray itself tries for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), _KNOCK_SECONDS).close()
        except OSError as error:
            raise _refused(address, error) from error


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
