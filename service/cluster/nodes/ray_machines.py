"""The machines of a job as actors on the nodes of a Ray cluster, one on each node while there are enough nodes.

Ray places the actors, carries their messages, and reports when an actor has died. Another actor is then started, on a
node that has the shard or is sent it, with the dual variables that were saved on that node or on another machine's.

python -m streamsvm.service.cluster.nodes.ray_machines ADDRESS JOB     has the nodes remove their files of a job that
                                                                       was cancelled or failed
"""

import contextlib
import logging
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from streamsvm.service.cluster.dataset.shards import Shard, pieces_of, read_origin
from streamsvm.service.cluster.machine.agent import Agent
from streamsvm.service.cluster.machine.shard_run import Begin, ReadIn
from streamsvm.service.cluster.nodes.connecting import FOR_GOOD, connect, nodes_of
from streamsvm.service.errors import ServiceError
from streamsvm.storage.errors import NO_ROOM, ROOM_HINT, DatasetCorrupt, StorageError
from streamsvm.storage.machine.child import leave
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.row_runs import all_ids
from streamsvm.trainer.distributed.messages import Order, Report

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


_MOST_FAILURES = 10  # failures of a machine in a row, without a finished round in between
_NODE_SECONDS = 120.0  # how long a lost machine waits for a node
_PAUSE_SECONDS = 1.0
_log = logging.getLogger("streamsvm.cluster")


class RayMachines:
    """The machines of a job, by number. It starts a lost machine anew, which then joins again. Leaving it ends all.

    first_alpha  alpha of all rows, where machines begin that have saved none; None: they begin at 0

    Raises ServiceError: machines_range, node_version, machine_lost, or the error for which a machine cannot go on.
    """

    def __init__(
        self,
        ray: Any,
        dataset: Path,
        shards: Sequence[Shard],
        begins: Sequence[Begin],
        keep_seconds: float,
        first_alpha: Array | None = None,
    ) -> None:
        self._ray, self._dataset, self._shards, self._begins = ray, dataset, shards, begins
        self._first_alpha = first_alpha
        self._keep_seconds, self._kept = keep_seconds, time.monotonic()
        self._actors: dict[int, Any] = {}
        self._nodes: dict[int, str] = {}
        self._due: dict[int, Any] = {}  # references to reports that machines will make
        self._beginning: dict[int, Future[Any]] = {}  # machines that are being started
        self._failures: Counter[int] = Counter()
        self._pool = ThreadPoolExecutor(len(shards))
        self._fresh, there = agents_of(ray, len(shards))  # by node: actors that run no machine yet
        for number, node in enumerate(placed([shard.name for shard in shards], there)):
            self._beginning[number] = self._pool.submit(self._begin, number, node)

    def __len__(self) -> int:
        return len(self._shards)

    def __enter__(self) -> "RayMachines":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        for actor in (*self._actors.values(), *self._fresh.values()):
            with contextlib.suppress(Exception):
                self._ray.get(actor.end.remote(), timeout=_PAUSE_SECONDS)
            with contextlib.suppress(Exception):
                self._ray.kill(actor)

    def node(self, number: int) -> str:
        """Return the id, in Ray, of the node of a machine."""
        return self._nodes.get(number, "")

    def ask(self, number: int, question: str, *about: Any) -> Any:
        """Return what a method of a machine's agent, `question`, returns, once the last round is over."""
        try:
            return self._ray.get(getattr(self._actors[number], question).remote(*about))
        except Exception as error:
            # Another attempt begins with the dual variables that all machines have saved.
            raise ServiceError("machine_left", f"machine {number} has left before it told all of its rows") from error

    def forget(self) -> None:
        """Have all machines remove their files of the job."""
        job = self._begins[0].job
        agents = self._fresh | {self._nodes[number]: actor for number, actor in self._actors.items()}
        with contextlib.suppress(Exception):  # the job has succeeded all the same
            # A node that has lost its machine, even just now, may have files of the job, too.
            others = set(nodes_of(self._ray)) - forget_on(self._ray, agents, job)
            again = {node: agent_on(self._ray, node) for node in others}
            self._fresh |= again
            forget_on(self._ray, again, job)

    def send(self, numbers: Collection[int], order: Order, alpha: Mapping[int, Array]) -> None:
        """Send machines an order, and to some of them the new alpha of the rows that they exported."""
        shared = self._ray.put(order)  # into Ray's store once: nodes may get it from each other
        for number in numbers:
            if number not in self._beginning:
                self._due[number] = self._actors[number].follow.remote(shared, alpha.get(number))

    def is_lost(self, number: int) -> bool:
        """Return whether the machine has died, and another is being started in its place."""
        return number in self._beginning

    def wait(self, pending: Collection[int], seconds: float) -> dict[int, Report]:
        """Wait until a machine in `pending` reports, or `seconds` are over; return the reports by machine."""
        for number in [k for k, future in self._beginning.items() if future.done()]:
            future = self._beginning.pop(number)
            try:
                self._due[number] = future.result()
            except Exception as error:
                self._lose(number, error)
        due = {ref: number for number, ref in self._due.items() if number in pending}
        if not due:
            time.sleep(min(seconds, 0.05))
            return {}
        found = {}
        for ref in self._ray.wait(list(due), num_returns=1, timeout=seconds)[0]:
            number = due[ref]
            del self._due[number]
            try:
                found[number] = self._ray.get(ref)
                self._failures[number] = 0
            except Exception as error:
                self._lose(number, error)
        return found

    def keep(self, come: Collection[int], at_once: bool = False) -> None:
        """If it is time, have the machines in `come` save their dual variables, each also on another machine."""
        if time.monotonic() - self._kept < self._keep_seconds and not at_once:
            return
        self._kept = time.monotonic()
        there, kept = [k for k in come if k not in self._beginning], []
        for number in there:
            begin = self._begins[number]
            kept.append(self._actors[number].keep_own.remote(begin.job, begin.shard))
            for neighbour in _neighbours(number, there)[:1]:
                kept.append(self._actors[neighbour].keep.remote(begin.job, begin.shard, kept[-1]))
        with contextlib.suppress(Exception):  # the next report shows that a machine is lost
            self._ray.wait(kept, num_returns=len(kept), timeout=CALL_SECONDS, fetch_local=False)

    # Placing and beginning

    def _begin(self, number: int, node: str, is_damaged: bool = False) -> Any:
        """Start a machine on a node, whose copy of the shard may be damaged; return a reference to its first report."""
        shard, begin = self._shards[number], self._begins[number]
        self._nodes[number] = node  # also if the machine fails there: after some failures it gets another node
        actor = self._fresh.pop(node, None) or agent_on(self._ray, node)
        if is_damaged:
            self._ray.get(actor.drop.remote(shard.name))
        _, there = self._ray.get(actor.about.remote(), timeout=CALL_SECONDS)
        if shard.name not in there:
            self._supply(number, actor)
        alpha = None
        if not self._ray.get(actor.has_kept.remote(begin.job, begin.shard), timeout=CALL_SECONDS):
            alpha = self._first_alpha_of(number)
        self._actors[number] = actor
        return actor.begin.remote(replace(begin, alpha=alpha))

    def _supply(self, number: int, actor: Any) -> None:
        """Send the shard to a machine, or have the machine read it in again from its source."""
        shard = self._shards[number]
        if shard.manifest.parts:
            _log.warning("machine %d reads its part of the dataset in again", number)
            actor.read_in.remote(shard.name, read_origin(self._dataset), number)
            while not isinstance(self._ray.get(actor.reading.remote()), ReadIn):
                time.sleep(_PAUSE_SECONDS)
            self._ray.get(actor.settle.remote(shard.name, shard.manifest))
            return
        for piece in pieces_of(self._dataset, shard):
            self._ray.get(actor.receive.remote(shard.name, *piece))
        self._ray.get(actor.complete.remote(shard.name, shard.manifest))

    def _first_alpha_of(self, number: int) -> Any:
        """Return dual variables of a machine that another machine has saved, else those to begin with; None: zeros."""
        begin = self._begins[number]
        for other in _neighbours(number, self._actors):
            if other not in self._beginning:
                with contextlib.suppress(Exception):
                    alpha = self._ray.get(self._actors[other].kept.remote(begin.job, begin.shard), timeout=CALL_SECONDS)
                    if alpha is not None:
                        return alpha
        return None if self._first_alpha is None else self._first_alpha[all_ids(begin.rows)]

    # Losing

    def _lose(self, number: int, error: Exception) -> None:
        """Start a lost machine anew on some node. Raises ServiceError if it has failed too often, or would again."""
        cause = getattr(error, "cause", None) or error
        said = str(cause).splitlines() or [type(cause).__name__]
        _log.warning("machine %d is lost: %s", number, said[0])
        self._failures[number] += 1
        if self._failures[number] > _MOST_FAILURES or is_for_good(cause):
            raise told(number, cause)
        if (actor := self._actors.pop(number, None)) is not None:
            with contextlib.suppress(Exception):
                self._ray.kill(actor)
        self._due.pop(number, None)
        self._beginning[number] = self._pool.submit(self._begin_anew, number, cause)

    def _begin_anew(self, number: int, cause: Exception) -> Any:
        time.sleep(_PAUSE_SECONDS * min(self._failures[number] - 1, 10))
        deadline = time.monotonic() + _NODE_SECONDS
        while not (nodes := nodes_of(self._ray)):
            if time.monotonic() > deadline:
                raise ServiceError(
                    "machine_lost", "no node is left", "Start nodes, and submit the job again."
                ) from cause
            time.sleep(_PAUSE_SECONDS)
        used = Counter(node for k, node in self._nodes.items() if k != number)
        before = self._nodes.get(number, "")
        # Among nodes with equally few machines the one before is taken: it has the shard. If the machine has failed
        # often, any other node is taken, even one that already has a machine.
        fails = self._failures[number] > _MOST_FAILURES // 2
        node = min(nodes, key=lambda node: (fails and node == before, used[node], node != before, node))
        return self._begin(number, node, getattr(cause, "code", None) == DatasetCorrupt.code)


def _neighbours(number: int, others: Collection[int]) -> list[int]:
    """Return the others in the order in which they save this machine's dual variables."""
    return sorted(set(others) - {number}, key=lambda k: (k < number, k))


def main(address: str, job: str) -> None:
    """Body of the process."""
    with contextlib.suppress(Exception):  # without a cluster there is no node to ask
        ray = connect(address)
        forget_on(ray, {node: agent_on(ray, node) for node in nodes_of(ray)}, job)


if __name__ == "__main__":
    main(*sys.argv[1:])
    leave()  # Ray takes its time
