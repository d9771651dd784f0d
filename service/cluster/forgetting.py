"""Nodes forget what they have kept of a job that has ended.

python -m service.cluster.forgetting ADDRESS JOB        of one whose coordinator is gone: cancelled, or failed
"""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterable
from typing import Any

from service.cluster.agents import CALL_SECONDS, agent_on
from service.cluster.connecting import connect, nodes_of
from service.settings import Settings
from storage.child import child_environment, leave


def forget_on(ray: Any, actors: Iterable[Any], job: str) -> None:
    """As far as these answer; what a node that is away has goes a week after it is back."""
    asked = [actor.forget.remote(job) for actor in actors]
    with contextlib.suppress(Exception):
        ray.wait(asked, num_returns=len(asked), timeout=CALL_SECONDS)


def forget_in_background(record: dict[str, Any], settings: Settings) -> None:
    """On all nodes that are there, if the job was on machines. Nobody waits for it."""
    if record["spec"].get("machines") is None or settings.ray_address is None:
        return
    command = [sys.executable, "-m", __name__, settings.ray_address, record["id"]]
    options = {"env": child_environment(), "check": False, "start_new_session": True}
    threading.Thread(target=subprocess.run, args=(command,), kwargs=options, name="forgetting", daemon=True).start()


def main(address: str, job: str) -> None:
    """Body of the process. Raises ServiceError if there is no cluster."""
    ray = connect(address)
    forget_on(ray, [agent_on(ray, node) for node in nodes_of(ray)], job)


if __name__ == "__main__":
    main(*sys.argv[1:])
    leave()  # Ray takes its time
