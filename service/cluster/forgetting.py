"""Nodes forget what they have kept of a job that has ended.

python -m service.cluster.forgetting ADDRESS JOB        of one whose coordinator is gone: cancelled, or failed
"""

import contextlib
import sys
from collections.abc import Iterable
from typing import Any

from service.cluster.agents import CALL_SECONDS, agent_on
from service.cluster.connecting import connect, nodes_of
from service.errors import ServiceError
from storage.child import leave


def forget_on(ray: Any, actors: Iterable[Any], job: str) -> None:
    """As far as these answer; what a node that is away has goes a week after it is back."""
    asked = [actor.forget.remote(job) for actor in actors]
    with contextlib.suppress(Exception):
        ray.wait(asked, num_returns=len(asked), timeout=CALL_SECONDS)


def main(address: str, job: str) -> None:
    """Body of the process."""
    with contextlib.suppress(ServiceError):  # without a cluster there is no node to tell
        ray = connect(address)
        forget_on(ray, [agent_on(ray, node) for node in nodes_of(ray)], job)


if __name__ == "__main__":
    main(*sys.argv[1:])
    leave()  # Ray takes its time
