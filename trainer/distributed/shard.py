"""The trainer of one shard of a job's rows: it trains round by round, until the machine's agent orders the end.

python -m streamsvm.trainer.distributed.shard RUN_DIRECTORY
"""

import sys
from pathlib import Path
from typing import Any

from streamsvm.storage.machine.child import leave
from streamsvm.storage.rows.cache import CacheReader
from streamsvm.storage.run.rounds import open_round
from streamsvm.trainer.distributed.active_row_export import ActiveRowExport
from streamsvm.trainer.distributed.cocoa_round import Round, ShardRows
from streamsvm.trainer.process import Trainer
from streamsvm.trainer.process import main as train


class ShardTrainer(Trainer):
    """A trainer whose `step` is one pass, then a round. It returns no reports, and makes no last checkpoint."""

    def __init__(self, run: Path, cache: CacheReader) -> None:
        super().__init__(run, cache)
        self._shared.limits = None  # the machine's agent decides when training ends
        self._end_round()

    def step(self) -> dict[str, Any]:
        progress = next(self._passes)
        self._shared.show(progress)
        self._state.control["finished_passes"] = progress.pass_
        self._end_round()
        return {}

    def shutdown(self) -> None:
        self._passes.close()
        self._state.control["training_done"] = 1

    def results(self) -> list[dict]:
        return []

    def _make_round(self, run: Path) -> Round:
        settings, alpha = self._settings, self._state.alpha
        state = open_round(run, settings.width, settings.tasks.width)
        export = ActiveRowExport(run, alpha, self._state.score)
        newton = ShardRows(run, settings, self._shared, alpha)
        self._round = Round(self._shared, state, alpha, self._w, settings.tasks, export, newton, settings.whole_steps)
        return self._round

    def _end_round(self) -> None:
        if not self._round.end():
            self.stop_reason = "stopped"


def main(directory: str) -> None:
    """Run the process: train a shard in the run directory `directory`."""
    train(directory, ShardTrainer)


if __name__ == "__main__":
    main(sys.argv[1])
    leave()
