"""What sweeps need of a problem: its variables, its figures, who visits its rows, and momentum."""

from collections.abc import Mapping

from storage.classes import Classes
from storage.csr import Array
from trainer.classes import class_parts, warm_class_tally
from trainer.group import Parts, lane_parts, warm_lane_tally
from trainer.link import Link
from trainer.momentum import Momentum
from trainer.problem import Problem
from trainer.settings import TrainerSettings
from trainer.tally import Tally, warm_tally
from trainer.variables import Variables
from trainer.visitor import Visitor


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
