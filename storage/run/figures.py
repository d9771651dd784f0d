"""The figures of a job's progress, each declared once: control page, history, events, page, terminal, metrics and the
document of answers are made of this table.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A figure of a job's progress.

    name     its name in progress and history
    group    figures of a group are shown together: see the objects `Gaps` to `Progress` of answers.txt
    type     its type in answers
    meaning  for the OpenAPI document and for /metrics
    unit     how pages write it: "count", "bytes", "seconds", or "" for any number
    field    its field on the control page, and attribute of `PassProgress`, where that is not `name`
    metric   what it is in /metrics: "gauge", or "counter", which only grows; "": /metrics lacks it
    label    its name on curves
    """

    name: str
    group: str
    type: str
    meaning: str
    unit: str = ""
    field: str = ""
    metric: str = ""
    label: str = ""

    @property
    def source(self) -> str:
        """The name of the field of the control page."""
        return self.field or self.name


_NUMBER = "float | None"
_ALL = (
    Figure("pass", "place", "int", "pass that runs, from 1; 0 before the first", "count", metric="gauge"),
    Figure("block", "place", "int", "blocks of the pass that have been read"),
    Figure("blocks", "place", "int | None", "blocks of a pass; null while that is not known"),
    Figure("sweep", "place", "int", "last sweep of the pass, from 1; 0: there was none", field="sweeps"),
    Figure("m_plus", "gradients", _NUMBER, "M+, the largest projected gradient", field="M_plus"),
    Figure("m_minus", "gradients", _NUMBER, "M-, the smallest projected gradient", field="M_minus"),
    Figure("gap", "gaps", _NUMBER, "`m_plus` - `m_minus`, which is 0 at the optimum", metric="gauge", label="M+ - M-"),
    Figure(
        "relative_gap_bound", "gaps", _NUMBER, "bound on the relative distance of the objective from its optimum",
        metric="gauge", label="relative gap, at most",
    ),
    Figure(
        "dual_objective", "objectives", _NUMBER,
        "D at the present dual variables, or another lower bound of the optimum", metric="gauge",
    ),
    Figure("primal_bound", "objectives", _NUMBER, "the least P that is known", metric="gauge"),
    Figure("best_C", "score", "float", "the best `C` of those judged on rows held out so far"),
    Figure("best_score", "score", "float", "the mean over folds, at `best_C`, of the figure that `scoring` is of"),
    Figure("rows_unvisited", "rows", "int", "rows that the pass did not visit", "count"),
    Figure("free_rows", "rows", "int", "rows whose dual variable is between its bounds", "count", metric="gauge"),
    Figure("rows_streamed", "counts", "int", "rows read, over all passes", "count", metric="counter"),
    Figure("rows_screened", "counts", "int", "rows of these that were not kept because they rest at a bound", "count"),
    Figure("resident_rows", "counts", "int", "rows in the cache", "count", metric="gauge"),
    Figure("resident_bytes", "counts", "int", "bytes of the rows in the cache", "bytes", metric="gauge"),
    Figure("evicted_rows", "counts", "int", "rows that left the cache, over all passes", "count", metric="counter"),
    Figure("updates", "counts", "int", "visits to rows, over all passes", "count", metric="counter"),
    Figure("read_bytes", "read", "int", "bytes of blocks read, over all passes", "bytes", metric="counter"),
    Figure("elapsed_seconds", "time", "float", "seconds of training, over all attempts", "seconds"),
    Figure("reader_wait_seconds", "waits", "float", "seconds for which the reader has waited", "seconds"),
    Figure("trainer_wait_seconds", "waits", "float", "seconds for which the trainer has waited", "seconds"),
    Figure("updates_per_second", "rates", _NUMBER, "visits a second to rows; null at first", "count", "updates"),
    Figure(
        "reader_wait_ratio", "rates", _NUMBER, "share of the time for which the reader waited; null at first",
        field="reader_wait_seconds",
    ),
    Figure(
        "trainer_wait_ratio", "rates", _NUMBER, "share of the time for which the trainer waited; null at first",
        field="trainer_wait_seconds",
    ),
)  # fmt: skip
FIGURES = {figure.name: figure for figure in _ALL}

PLACE = ("place",)
OF_TASK = ("gradients", "gaps", "objectives")  # groups of the figures of a task, after a pass
COUNTED = ("counts", "read")  # groups of counts, over all passes or at present, which are summed over machines


def figures_in(*groups: str) -> Iterator[Figure]:
    """Yield the figures of groups, in the order of the groups."""
    yield from (figure for group in groups for figure in _ALL if figure.group == group)


def figures_of(found: Any, *groups: str) -> dict[str, Any]:
    """Return figures by name, from an object that has them as attributes."""
    return {figure.name: getattr(found, figure.source) for figure in figures_in(*groups)}


COUNTS = tuple(figure.name for figure in figures_in(*COUNTED))
