"""Has the machines of a cluster read a dataset in, a shard each, until all shards number features alike."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from streamsvm.reader.ingest.shared_schema import agreed_schema, merged_manifest
from streamsvm.service.cluster.dataset.origin import Origin
from streamsvm.service.cluster.dataset.shards import shard_manifest
from streamsvm.service.cluster.machine.shard_reading import ReadIn
from streamsvm.service.cluster.nodes.agents import CALL_SECONDS, agent_on, agents_of, placed
from streamsvm.service.cluster.nodes.connecting import nodes_of
from streamsvm.service.errors import ServiceError
from streamsvm.storage.blocks.manifest import Manifest

_POLL_SECONDS = 0.2
_MOST_FAILURES = 5  # of a machine
Report = Callable[[dict[int, dict[str, int]]], None]


class ReadingIn:
    """Has machines read a source in. Callers `run`, then `settle`. Leaving the context ends the agents; it also drops
    the shards, unless they were settled.

    report  receives how far each machine is, several times a second
    Raises ServiceError: machines_range, node_version, machine_lost, and what is wrong with the data.
    """

    def __init__(self, ray: Any, origin: Origin, report: Report) -> None:
        self._ray, self.origin, self._report = ray, origin, report
        self._failures: Counter[int] = Counter()
        self._progress: dict[int, dict[str, int]] = {}
        self._is_complete = False
        agents, shards = agents_of(ray, origin.machines)
        self._nodes = placed(origin.names, shards)
        self._agents = {number: agents.pop(node) for number, node in enumerate(self._nodes)}
        for agent in agents.values():
            ray.kill(agent)

    def __enter__(self) -> "ReadingIn":
        return self

    def __exit__(self, *_: object) -> None:
        for number, agent in self._agents.items():
            try:
                if not self._is_complete:
                    self._ray.get(agent.drop.remote(self.origin.names[number]), timeout=CALL_SECONDS)
                self._ray.kill(agent)
            except Exception:
                continue

    def run(self) -> tuple[Manifest, list[ReadIn]]:
        """The manifest of the whole dataset, and each shard as it was read in."""
        found: dict[int, ReadIn] = {}
        missing = list(range(self.origin.machines))
        while missing:
            found |= self._read(missing)
            shards = [found[k] for k in sorted(found)]
            settled, missing = agreed_schema(
                self.origin.settled, [shard.manifest for shard in shards], [shard.listed for shard in shards]
            )
            self.origin = replace(self.origin, settled=settled)
        manifests = [shard.manifest for shard in shards]
        all_ = merged_manifest(self.origin.settled, manifests, self.origin.options.n_features)
        all_ = replace(all_, parts=tuple(len(each.blocks) for each in manifests))
        return all_, shards

    def settle(self, manifest: Manifest) -> None:
        """Have the machines keep their shards as shards of the dataset that this manifest describes."""
        for number, agent in self._agents.items():
            shard = shard_manifest(manifest, number)
            self._ray.get(agent.settle.remote(self.origin.names[number], shard), timeout=CALL_SECONDS)
        self._is_complete = True

    def _read(self, missing: Sequence[int]) -> dict[int, ReadIn]:
        origin = self._ray.put(self.origin)
        for number in missing:
            self._begin(number, origin)
        found: dict[int, ReadIn] = {}
        while len(found) < len(missing):
            time.sleep(_POLL_SECONDS)
            for number in [k for k in missing if k not in found]:
                state = self._state(number, origin)
                if isinstance(state, ReadIn):
                    found[number] = state
                else:
                    self._progress[number] = state
            self._report(self._progress)
        return found

    def _begin(self, number: int, origin: Any) -> None:
        self._agents[number].read_in.remote(self.origin.names[number], origin, number)

    def _state(self, number: int, origin: Any) -> dict[str, Any] | ReadIn:
        try:
            return self._ray.get(self._agents[number].reading.remote(), timeout=CALL_SECONDS)
        except Exception as error:
            cause = getattr(error, "cause", None) or error
            if isinstance(cause, ServiceError):
                raise _of_machine(number, self.origin, cause) from error
            self._failures[number] += 1
            if self._failures[number] > _MOST_FAILURES:
                raise ServiceError(
                    "machine_lost", f"machine {number} was lost again and again", "The nodes' logs say more."
                ) from error
            self._begin_anew(number, origin)
            return {}

    def _begin_anew(self, number: int, origin: Any) -> None:
        """Read a shard in again, on the node that has least to do."""
        self._ray.kill(self._agents[number])
        nodes = nodes_of(self._ray)
        if not nodes:
            raise ServiceError("machine_lost", "no node is left", "Start nodes, and read the data in again.")
        used = Counter(node for k, node in enumerate(self._nodes) if k != number)
        self._nodes[number] = min(nodes, key=lambda node: (used[node], node))
        self._agents[number] = agent_on(self._ray, self._nodes[number])
        self._begin(number, origin)


def _of_machine(number: int, origin: Origin, cause: ServiceError) -> ServiceError:
    if cause.code == "no_rows" and origin.machines > 1:
        return ServiceError(
            "machines_range",
            f"nothing is left for machine {number}: compressed files and strings are not cut",
            "Ask for fewer machines, or give more files.",
        )
    if cause.at:
        return cause  # it names the file
    return ServiceError(cause.code, f"machine {number}: {cause.message}", cause.hint)
