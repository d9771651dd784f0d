"""Machines that are threads of this process, each with a directory of its own."""

import queue
import threading
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from streamsvm.service.cluster.dataset.shards import Shard, files_of, pieces_of
from streamsvm.service.cluster.machine.machine import Machine
from streamsvm.service.cluster.rounds.messages import Begin, Found, HeldRows, OrderToMachine
from streamsvm.storage.rows.csr import Array


class ThreadMachines:
    """See `service.cluster.rounds.coordinator.Machines`. Each has a root (machines,); leaving the context ends all."""

    def __init__(self, roots: Sequence[Path], dataset: Path, shards: Sequence[Shard], begins: Sequence[Begin]) -> None:
        self._asked: list[queue.Queue[Callable[[Machine], Any] | None]] = [queue.Queue() for _ in roots]
        self._found: queue.Queue[tuple[int, Any]] = queue.Queue()
        self._threads = [threading.Thread(target=self._serve, args=(k, root)) for k, root in enumerate(roots)]
        for thread in self._threads:
            thread.start()
        self._early: dict[int, Any] = {}  # what nobody has asked for yet
        self._begins, self.restarts, self.keeps = begins, 0, True
        for k, (shard, begin) in enumerate(zip(shards, begins, strict=True)):
            self._asked[k].put(_sending(dataset, shard))
            self._asked[k].put(partial(Machine.begin, begin=begin))

    def __len__(self) -> int:
        return len(self._threads)

    def __enter__(self) -> "ThreadMachines":
        return self

    def __exit__(self, *_: object) -> None:
        for asked in self._asked:
            asked.put(None)
        for thread in self._threads:
            thread.join()

    def answer(self, number: int, answer: OrderToMachine) -> None:
        self._asked[number].put(lambda machine: machine.go_on(answer))

    def wait(self, pending: Collection[int], seconds: float) -> dict[int, Found]:
        if not self._early.keys() & set(pending):
            try:
                number, found = self._found.get(timeout=seconds)
            except queue.Empty:
                return {}
            if isinstance(found, Exception):
                raise found
            self._early[number] = found
        return {number: self._early.pop(number) for number in set(pending) & self._early.keys()}

    def held_out(self, number: int, place: int) -> HeldRows:
        """See RayMachines."""
        return self._ask(number, lambda machine: machine.held_out(place))

    def alpha(self, number: int, part: slice) -> Array:
        """See RayMachines."""
        return self._ask(number, lambda machine: machine.alpha(part))

    def _ask(self, number: int, question: Callable[[Machine], Any]) -> Any:
        told: queue.Queue[Any] = queue.Queue()
        self._asked[number].put(lambda machine: told.put(question(machine)))
        return told.get(timeout=60)

    def restart(self, number: int) -> None:
        """As if the machine had died after the last round and begun anew, with what it has kept, if it `keeps`."""
        begin = self._begins[number]
        self.restarts += 1

        def again(machine: Machine) -> Found:
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
        machine = Machine(root)
        while (task := self._asked[number].get()) is not None:
            try:
                found = task(machine)
            except Exception as error:
                found = error
            if found is not None:
                self._found.put((number, found))
        machine.end()


def _sending(dataset: Path, shard: Shard) -> Callable[[Machine], None]:
    def send(machine: Machine) -> None:
        if shard.name not in machine.shards():
            for file in files_of(dataset, shard):
                for k, piece in enumerate(pieces_of(dataset / file)):
                    machine.receive(shard.name, file, piece, k == 0)
            machine.complete(shard.name, shard.manifest)

    return send
