"""A trainer whose rows are a part of the problem's: it works round by round, until the machine's agent says stop.

python -m streamsvm.trainer.distributed.shard RUN_DIRECTORY
"""

import sys
from pathlib import Path
from typing import Any

from streamsvm.storage.machine.child import leave
from streamsvm.storage.rows.cache import CacheReader
from streamsvm.storage.run.rounds import open_round
from streamsvm.trainer.distributed.active_row_export import GivenRows
from streamsvm.trainer.distributed.cocoa_round import Round
from streamsvm.trainer.problem.lanes import Group
from streamsvm.trainer.problem.problem import Problem
from streamsvm.trainer.process import Trainer
from streamsvm.trainer.process import main as train
from streamsvm.trainer.settings import TrainerSettings


class PartTrainer(Trainer):
    """`step` is one pass and the round that ends with it. There is nothing to report, and no checkpoint of its own."""

    def __init__(self, run: Path, cache: CacheReader) -> None:
        super().__init__(run, cache)
        self._link.limits = None  # the machine's agent says when it ends
        settings = self._settings
        problems = _problems(settings)
        state = open_round(run, settings.width, settings.lanes)
        alpha = self._state.alpha
        given = GivenRows(run, alpha, self._state.score)
        self._round = Round(self._link, state, alpha, self._w, problems, given)
        self._link.round = self._round
        self._take_part()

    def step(self) -> dict[str, Any]:
        progress = next(self._passes)
        self._link.show(progress)
        self._state.control["finished_passes"] = progress.pass_
        self._take_part()
        return {}

    def shutdown(self) -> None:
        self._passes.close()
        self._state.control["training_done"] = 1

    def results(self) -> list[dict]:
        return []

    def _take_part(self) -> None:
        if not self._round.end():
            self.stop_reason = "stopped"


def _problems(settings: TrainerSettings) -> list[Problem]:
    group = settings.group
    if not isinstance(group, Group):
        return [settings.problem]
    return [Problem(settings.loss, lane.C_positive, lane.C_negative) for lane in group.lanes]


def main(directory: str) -> None:
    """Body of the process."""
    train(directory, PartTrainer)


if __name__ == "__main__":
    main(sys.argv[1])
    leave()
