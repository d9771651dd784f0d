"""Has the nodes of a cluster remove their files of a job that has ended.

python -m streamsvm.service.cluster.nodes.forgetting ADDRESS JOB     for a job that was cancelled or failed
"""

import contextlib
import sys
from collections.abc import Mapping
from typing import Any

from streamsvm.service.cluster.nodes.agents import CALL_SECONDS, agent_on
from streamsvm.service.cluster.nodes.connecting import connect, nodes_of
from streamsvm.storage.machine.child import leave


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
