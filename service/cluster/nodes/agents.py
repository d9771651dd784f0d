"""The agents of machines as actors on the nodes of a Ray cluster, and the error of a job whose machine is lost.

python -m streamsvm.service.cluster.nodes.agents ADDRESS JOB     has the nodes remove their files of a job that was
                                                                 cancelled or failed
"""

import contextlib
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from streamsvm.service.cluster.machine.agent import Agent
from streamsvm.service.cluster.nodes.connecting import FOR_GOOD, connect, nodes_of
from streamsvm.service.errors import ServiceError
from streamsvm.storage.errors import NO_ROOM, ROOM_HINT, StorageError
from streamsvm.storage.machine.child import leave

CALL_SECONDS = 60.0  # timeout of a call that has next to nothing to do
# Codes of faults that every node would meet, at any time.
_FOR_GOOD = (*FOR_GOOD, "cache_too_small", "memory_too_small", "features_range", "unknown_label")


def agent_on(ray: Any, node: str) -> Any:
    """Start an agent on a node; return Ray's handle of the actor."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415 - an extra

    remote = ray.remote(num_cpus=0, max_restarts=0)(Agent)
    return remote.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote()


def agents_of(ray: Any, least: int) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Start an agent on every node; return agents and shards by node. Raises ServiceError machines_range."""
    nodes = nodes_of(ray)
    if len(nodes) < least:
        raise ServiceError(
            "machines_range",
            f"the cluster has {len(nodes)} nodes with a core, the job asks for {least} machines",
            "Ask for fewer, or add nodes.",
        )
    agents = {node: agent_on(ray, node) for node in nodes}
    asked = {node: agent.about.remote() for node, agent in agents.items()}
    told = {node: ray.get(about, timeout=CALL_SECONDS) for node, about in asked.items()}
    check_versions({theirs for theirs, _ in told.values()})
    return agents, {node: shards for node, (_, shards) in told.items()}


def placed(names: Sequence[str], shards: dict[str, list[str]]) -> list[str]:
    """Return a node for each of these shards, a node that has it if possible. There are nodes enough for all."""
    nodes: list[str | None] = [None] * len(names)
    for number, name in enumerate(names):
        nodes[number] = next((node for node, has in shards.items() if name in has and node not in nodes), None)
    free = iter([node for node in shards if node not in nodes])
    return [node or next(free) for node in nodes]


def is_for_good(cause: Exception) -> bool:
    """Return whether the machine would fail again on any node."""
    return isinstance(cause, ServiceError) and cause.code in _FOR_GOOD


def told(number: int, cause: Exception) -> ServiceError:
    """Return the error with which the job fails when machine `number` cannot go on."""
    if isinstance(cause, ServiceError | StorageError):
        return ServiceError(cause.code, f"machine {number}: {cause.message}", cause.hint)
    if isinstance(cause, OSError) and cause.errno in NO_ROOM:
        return ServiceError("out_of_space", f"machine {number}: the disk is full", ROOM_HINT)
    return ServiceError("machine_lost", f"machine {number} was lost again and again", "The nodes' logs say more.")


def check_versions(theirs: set[str]) -> None:
    """Check that all nodes have this version of StreamSVM. Raises ServiceError node_version."""
    own = version("streamsvm")
    if theirs != {own}:
        others = ", ".join(sorted(theirs - {own}))
        raise ServiceError(
            "node_version", f"nodes have StreamSVM {others}, this is {own}", "Install the same version everywhere."
        )


def forget_on(ray: Any, agents: Mapping[str, Any], job: str) -> set[str]:
    """Have agents (node -> agent) remove their files of a job; return nodes that did. Absent nodes do so in a week."""
    asked = {agent.forget.remote(job): node for node, agent in agents.items()}
    answered = ray.wait(list(asked), num_returns=len(asked), timeout=CALL_SECONDS)[0] if asked else []
    done = set()
    for each in answered:
        with contextlib.suppress(Exception):  # it has died
            ray.get(each)
            done.add(asked[each])
    return done


def main(address: str, job: str) -> None:
    """Body of the process."""
    with contextlib.suppress(Exception):  # without a cluster there is no node to ask
        ray = connect(address)
        forget_on(ray, {node: agent_on(ray, node) for node in nodes_of(ray)}, job)


if __name__ == "__main__":
    main(*sys.argv[1:])
    leave()  # Ray takes its time
