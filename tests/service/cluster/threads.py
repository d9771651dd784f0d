"""Machines that are threads of this process, each with a directory of its own."""

import queue
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from streamsvm.service.cluster.dataset.shards import Shard, pieces_of
from streamsvm.service.cluster.machine.agent import Agent
from streamsvm.service.cluster.machine.shard_run import Begin
from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.distributed.messages import Order, Report


class ThreadMachines:
    """See `service.cluster.nodes.ray_machines.RayMachines`. Each has a root; leaving the context ends all."""

    def __init__(self, roots: Sequence[Path], dataset: Path, shards: Sequence[Shard], begins: Sequence[Begin]) -> None:
        self._asked: list[queue.Queue[Callable[[Agent], Any] | None]] = [queue.Queue() for _ in roots]
        self._found: queue.Queue[tuple[int, Any]] = queue.Queue()
        self._threads = [threading.Thread(target=self._serve, args=(k, root)) for k, root in enumerate(roots)]
        for thread in self._threads:
            thread.start()
        self._early: dict[int, Any] = {}  # what nobody has asked for yet
        self._begins, self.restarts, self.keeps = begins, 0, True
        for k, (shard, begin) in enumerate(zip(shards, begins, strict=True)):
            self._asked[k].put(_sending(dataset, shard))
            self._asked[k].put(partial(Agent.begin, begin=begin))

    def __len__(self) -> int:
        return len(self._threads)

    def __enter__(self) -> "ThreadMachines":
        return self

    def __exit__(self, *_: object) -> None:
        for asked in self._asked:
            asked.put(None)
        for thread in self._threads:
            thread.join()

    def send(self, numbers: Collection[int], order: Order, alpha: Mapping[int, Array]) -> None:
        for number in numbers:
            self._asked[number].put(partial(Agent.follow, order=order, alpha=alpha.get(number)))

    def wait(self, pending: Collection[int], seconds: float) -> dict[int, Report]:
        if not self._early.keys() & set(pending):
            try:
                number, found = self._found.get(timeout=seconds)
            except queue.Empty:
                return {}
            if isinstance(found, Exception):
                raise found
            self._early[number] = found
        return {number: self._early.pop(number) for number in set(pending) & self._early.keys()}

    def ask(self, number: int, question: str, *about: Any) -> Any:
        """See RayMachines."""
        told: queue.Queue[Any] = queue.Queue()
        self._asked[number].put(lambda machine: told.put(getattr(machine, question)(*about)))
        return told.get(timeout=60)

    def restart(self, number: int) -> None:
        """As if the machine had died after the last round and begun anew, with what it has kept, if it `keeps`."""
        begin = self._begins[number]
        self.restarts += 1

        def again(machine: Agent) -> Report:
            if self.keeps:
                machine.keep(begin.job, begin.shard, machine.alpha())
            machine.end()
            return machine.begin(begin)

        self._asked[number].put(again)

    def is_lost(self, number: int) -> bool:
        return False

    def keep(self, come: Collection[int]) -> None:
        """They are not lost."""

    def _serve(self, number: int, root: Path) -> None:
        machine = Agent(root)
        while (task := self._asked[number].get()) is not None:
            try:
                found = task(machine)
            except Exception as error:
                found = error
            if found is not None:
                self._found.put((number, found))
        machine.end()


def _sending(dataset: Path, shard: Shard) -> Callable[[Agent], None]:
    def send(machine: Agent) -> None:
        if shard.name not in machine.about()[1]:
            for piece in pieces_of(dataset, shard):
                machine.receive(shard.name, *piece)
            machine.complete(shard.name, shard.manifest)

    return send
