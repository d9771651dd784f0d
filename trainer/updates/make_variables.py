"""Makes the objects that train dual variables: the variables, their statistics, and the updater that visits rows."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.kernels.coordinate import GAP
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.updates.statistics import DualStatistics
from streamsvm.trainer.updates.updater import CoordinateUpdater, Note
from streamsvm.trainer.updates.variables import Variables


class Parts(NamedTuple):
    """The variables of a solver, with the statistics and the updater that belong to them."""

    variables: Variables
    statistics: DualStatistics
    updater: CoordinateUpdater


def make_variables(
    settings: TrainerSettings,
    alpha: Array,
    w: Array,
    note: Note,
    kept: Mapping[str, Array],
    scratch_w: Callable[[], Array] | None = None,
    is_converged: Callable[[], Array] | None = None,
    score: int = GAP,
    asks_rest: bool = False,
) -> Parts:
    """Make them. alpha (n_rows, width) and w (features, width) change in place. See Variables and CoordinateUpdater."""
    variables = Variables(settings.tasks, alpha, w, scratch_w, is_converged)
    statistics = DualStatistics(variables, kept)
    updater = CoordinateUpdater(variables, statistics, note, settings.visited, score, asks_rest)
    return Parts(variables, statistics, updater)
