"""What sweeps need of a problem: its variables, its figures, who visits its rows, and momentum."""

from collections.abc import Mapping

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.problem.classes import Classes
from streamsvm.trainer.problem.problem import Problem
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.shared_state import Link
from streamsvm.trainer.updates.classes import class_parts, warm_class_tally
from streamsvm.trainer.updates.group import Parts, lane_parts, warm_lane_tally
from streamsvm.trainer.updates.momentum import Momentum
from streamsvm.trainer.updates.statistics import Tally, warm_tally
from streamsvm.trainer.updates.updater import Visitor
from streamsvm.trainer.updates.variables import Variables


def parts_of(
    problem: Problem, settings: TrainerSettings, link: Link, alpha: Array, w: Array, kept: Mapping[str, Array]
) -> Parts:
    """Of one problem, of a group of lanes, or of all classes of one: what the settings say."""
    if isinstance(settings.group, Classes):
        return class_parts(problem, settings.group, link, alpha, w, kept)
    if settings.group:
        return lane_parts(settings, link, alpha, w, kept)
    tally = Tally(alpha, w, kept)
    return Variables(alpha, w, lambda: link.room), tally, Visitor(problem, alpha, w, tally, link.note), Momentum


def warm_tally_of(settings: TrainerSettings, alpha: Array) -> Mapping[str, Array]:
    """What `parts_of` has to be given as `kept` if training begins with this alpha."""
    if isinstance(settings.group, Classes):
        return warm_class_tally(settings.group, alpha)
    if settings.group:
        return warm_lane_tally(settings.group, settings.loss, alpha)
    return warm_tally(settings.problem, alpha)
