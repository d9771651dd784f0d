"""Figures that a solver yields to its caller after each pass."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from streamsvm.trainer.problem.objective import relative_gap


@dataclass(frozen=True)
class PassProgress:
    """Figures at the end of a pass, or of a sweep or a Newton step.

    updates             number of visits to rows so far, over all passes
    M_plus, M_minus     largest and smallest projected gradient of the pass's visits, each at the w of its visit
    rows_unvisited      number of rows not visited in the pass
    dual_objective      D(alpha) at the end of the pass
    primal_bound        least P(w) known so far, from the streaming certificate
    free_rows           number of rows with 0 < alpha < U
    is_worth_a_look     the solver asks for a certificate of the present w before it goes on
    lanes               progress of each task, where there are several: the figures above are those of the worst
    sweeps              figures after each sweep; after some only, if there were many (trainer.sweeps.sweep.is_told)
    newton              figures after each Newton step
    """

    pass_: int
    updates: int
    M_plus: float
    M_minus: float
    rows_unvisited: int
    dual_objective: float
    primal_bound: float
    free_rows: int
    is_worth_a_look: bool = field(default=False, kw_only=True)
    lanes: tuple["PassProgress", ...] = field(default=(), kw_only=True)
    sweeps: tuple["Sweep", ...] = field(default=(), kw_only=True)
    newton: tuple["NewtonStep", ...] = field(default=(), kw_only=True)

    @property
    def gap(self) -> float:
        """M+ - M-, which falls to 0 at the optimum."""
        return self.M_plus - self.M_minus

    @property
    def distance(self) -> float:
        """The figure that is compared with a job's `tolerance`: M+ - M-."""
        return self.gap

    @property
    def is_of_all(self) -> bool:
        """Whether `distance` covers all rows: M+ - M- says nothing about rows that were not visited."""
        return self.rows_unvisited == 0

    @property
    def relative_gap_bound(self) -> float:
        """Upper bound of the distance of the objective from its optimum, relative to the objective."""
        return relative_gap(self.primal_bound, self.dual_objective)


@dataclass(frozen=True)
class Sweep:
    """The end of a sweep: its number in the pass, from 1, the seconds that the job has taken, and the figures found."""

    number: int
    elapsed_seconds: float
    found: PassProgress


class TaskStep(NamedTuple):
    """A task in a Newton step: the number of rows in its system, which are those with curvature, and its sigma."""

    rows: int
    sigma: float


@dataclass(frozen=True)
class NewtonStep:
    """The end of a Newton step.

    number   number of the step in the job, from 1
    scans    number of scans that the job's steps have made so far
    found    figures at the end of the step
    tasks    tasks that took part in the step, by their numbers
    """

    number: int
    elapsed_seconds: float
    scans: int
    found: PassProgress
    tasks: Mapping[int, TaskStep]

    @property
    def largest(self) -> TaskStep:
        """The task with the most rows in its system."""
        return max(self.tasks.values())


@dataclass(frozen=True)
class Bracket(PassProgress):
    """Progress of a solver without dual variables: M+ and M- are nan, `dual_objective` is another lower bound.

    primal_at_zero   P(0), the primal objective at w = 0
    """

    primal_at_zero: float

    @property
    def distance(self) -> float:
        """Distance between upper and lower bound of the optimum, relative to P(0) (Franc, Sonnenburg, ICML 2008)."""
        return (self.primal_bound - self.dual_objective) / self.primal_at_zero
