"""What a solver tells its caller after each pass."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Progress:
    """One pass of the reader.

    updates             coordinate steps looked at so far, over all passes
    M_plus, M_minus     largest and smallest projected gradient met in the pass, at a moving w
    rows_unvisited      rows not visited in the pass
    dual_objective      D(alpha) at the end of the pass
    primal_bound        least P(w) known so far, from the streaming certificate
    free_rows           rows with 0 < alpha < U
    is_worth_a_look     at all rows, at the w of now: the solver has done what it could without one
    lanes               the same of each lane, where several are trained: the figures above are those of the worst
    sweeps              how the pass came there, if it had sweeps; of many, not all (trainer.sweeps.schedule.is_told)
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
    lanes: tuple["Progress", ...] = field(default=(), kw_only=True)
    sweeps: tuple["Sweep", ...] = field(default=(), kw_only=True)

    @property
    def gap(self) -> float:
        """M+ - M-, which falls to 0 at the optimum."""
        return self.M_plus - self.M_minus

    @property
    def distance(self) -> float:
        """What a job's `tolerance` is compared with."""
        return self.gap

    @property
    def is_of_all(self) -> bool:
        """Whether `distance` says what it is to say: M+ - M- says nothing about rows that were not visited."""
        return self.rows_unvisited == 0

    @property
    def relative_gap_bound(self) -> float:
        """Bound on the relative distance of the objective from its optimum: (P - D) / P."""
        return relative_gap(self.primal_bound, self.dual_objective)


@dataclass(frozen=True)
class Sweep:
    """The end of a sweep: its number in the pass, from 1, the job's time, and what it came to."""

    number: int
    elapsed_seconds: float
    found: Progress


def relative_gap(primal: float, dual: float) -> float:
    """(P - D) / P; 0 where P is 0, the least there is: no row costs anything."""
    return (primal - dual) / primal if primal else 0.0


@dataclass(frozen=True)
class Bracket(Progress):
    """Of a solver without dual variables: M+ and M- are nan, `dual_objective` is another lower bound of the optimum.

    primal_at_zero   P(0)
    """

    primal_at_zero: float

    @property
    def distance(self) -> float:
        """What is between the bounds, relative to P(0) (Franc, Sonnenburg, ICML 2008)."""
        return (self.primal_bound - self.dual_objective) / self.primal_at_zero
