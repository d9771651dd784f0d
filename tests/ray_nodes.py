"""A real Ray cluster on this machine, whose nodes have directories of their own."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

_MEMORY = 512 << 20  # of Ray's object store
_NICENESS = {"RAY_worker_niceness": "0"}  # Ray's own, 15, leaves machines a hundredth of a core beside other tests


class Nodes:
    """So many nodes that train, and a head that does not; `close` ends them.

    environment  of their processes
    """

    def __init__(self, directory: Path, count: int, environment: dict[str, str] | None = None) -> None:
        from ray.cluster_utils import Cluster  # noqa: PLC0415 - an extra

        self.directory, self._count, self._environment = directory, 0, environment or {}
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": _MEMORY})
        self._nodes: dict[Path, Any] = {}
        for _ in range(count):
            self.add()

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return self.cluster.address

    @property
    def directories(self) -> list[Path]:
        """Of the nodes that live, the oldest first."""
        return list(self._nodes)

    def add(self) -> None:
        self._count += 1
        directory = self.directory / f"node{self._count}"
        environment = {**_NICENESS, **self._environment, "STREAMSVM_NODE_DIR": str(directory)}
        self._nodes[directory] = self.cluster.add_node(num_cpus=1, object_store_memory=_MEMORY, env_vars=environment)

    def kill_one(self) -> None:
        """Without grace."""
        node = self._nodes.pop(random.choice(self.directories))
        self.cluster.remove_node(node, allow_graceful=False)

    def close(self) -> None:
        """End all of it."""
        self.cluster.shutdown()
