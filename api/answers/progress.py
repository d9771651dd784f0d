"""The progress of a job: of the last sweep or pass, and of each pass in its history."""

from typing import Literal

from streamsvm.api.answers import Answer, Label, field, sometimes
from streamsvm.api.answers.inputs import Notice
from streamsvm.service.jobs.progress.states import PHASES
from streamsvm.storage.run.state import SOLVER_PHASES


class Lanes(Answer):
    """The lanes that are trained side by side: problems over the same rows, for classes, values of C and folds."""

    number: int = field("number of the first, from 0")
    count: int = field("how many are trained side by side")
    of: int = field("how many the job has")
    class_: Label | None = field(
        "label that is told from the rest; null if lanes differ, or there is none", alias="class"
    )
    fold: int | None = field("fold that is left out; null if lanes differ, or none is")
    C: float | None = field("the value of C; null if lanes differ")


class NewtonProgress(Answer):
    """The last Newton step."""

    step: int = field("its number in the job, from 1")
    scans: int = field("scans over all rows that the job's steps have made")
    system_rows: int = field("rows with curvature, which make up its largest system")
    sigma: float | None = field("the step's parameter sigma; null for losses that need none")


class Machine(Answer):
    """The part that a machine has in a job on several."""

    machine: int = field("its number, from 0")
    node: str = field("id of its Ray node, the first 12 letters")
    state: Literal["in", "late", "lost"] = field("`in`: it had part in the last round; `late`: it had not; `lost`")
    seconds: float = field("seconds that its last round took")
    waited_seconds: float = field("seconds that it has waited for others, in all")
    sent_bytes: int = field("bytes sent to the coordinator, in all")
    read_bytes: int = field("bytes of blocks read, in all")
    resident_bytes: int = field("bytes of the rows in its cache")


class Gaps(Answer):
    """How far a problem is from its optimum. A figure is null if it is not known, or no finite number."""

    gap: float | None = field("`m_plus` - `m_minus`, which is 0 at the optimum")
    relative_gap_bound: float | None = field("bound on the relative distance of the objective from its optimum")


class Figures(Gaps):
    """The figures of a problem after a pass."""

    m_plus: float | None = field("M+, the largest projected gradient")
    m_minus: float | None = field("M-, the smallest projected gradient")
    dual_objective: float | None = field("D at the present dual variables, or another lower bound of the optimum")
    primal_bound: float | None = field("the least P that is known")


class Progress(Figures):
    """How far a job is; the figures are those of the last sweep or pass, of several lanes those of the worst."""

    lane: Lanes = sometimes("the lanes that run; jobs of earlier versions lack it")
    solver_phase: Literal[SOLVER_PHASES] | None = sometimes(  # type: ignore[valid-type]
        "of solver streamsvm: `stream`, rows are read in; `sweep`, all rows are swept over; `newton`, Newton steps are "
        "made; null for others; jobs of earlier versions lack it"
    )
    pass_: int = field("pass that runs, from 1; 0 before the first", alias="pass")
    block: int = field("blocks of the pass that have been read")
    blocks: int | None = field("blocks of a pass; null while that is not known")
    sweep: int = field("last sweep of the pass, from 1; 0: there was none")
    rows_unvisited: int | None = field("rows that the pass did not visit; null before the first figures")
    free_rows: int | None = field("rows whose dual variable is between its bounds; null before the first figures")
    newton: NewtonProgress | None = sometimes(
        "the last Newton step; null before the first; jobs of earlier versions lack it"
    )
    rows_streamed: int = field("rows read, over all passes")
    rows_screened: int = field("rows of these that were not kept because they rest at a bound")
    read_bytes: int = field("bytes of blocks read, over all passes")
    resident_rows: int = field("rows in the cache")
    resident_bytes: int = field("bytes of the rows in the cache")
    evicted_rows: int = field("rows that have left the cache")
    updates: int = field("visits to rows, over all passes")
    updates_per_second: float | None = field("visits to rows a second; null in the beginning")
    reader_wait_ratio: float | None = field("share of the time for which the reader waited; null in the beginning")
    trainer_wait_ratio: float | None = field("share of the time for which the trainer waited; null in the beginning")
    elapsed_seconds: float = field("seconds of training, over all attempts")
    compile_seconds: float = sometimes(
        "seconds for which the processes of this attempt compiled kernels, which a machine does once: no training, and "
        "not counted in `max_seconds`; jobs of earlier versions lack it"
    )
    eta_seconds: float | None = field("seconds that training may still take; null if there is no telling")
    machines: list[Machine] = sometimes("machines of a job on several")


class PhaseAndProgress(Progress):
    """The data of an event `progress`."""

    phase: Literal[PHASES] | None = field(  # type: ignore[valid-type]
        "what the job does; null at the end"
    )


class LaneFigures(Figures):
    """The figures of a lane after a pass."""

    lane: int = field("number of the lane, from 0")


class LaneGaps(Gaps):
    """The gaps of a lane after a sweep."""

    lane: int = field("number of the lane, from 0")


class Objectives(Gaps):
    """The figures after a sweep or a step; of several lanes those of the worst."""

    elapsed_seconds: float = field("seconds of training, over all attempts")
    dual_objective: float | None = field("D at the present dual variables")
    primal_bound: float | None = field("the least P that is known")


class Sweep(Objectives):
    """A sweep over all rows."""

    sweep: int = field("its number in the pass, from 1")
    lanes: list[LaneGaps] = sometimes("each lane, if there are several")


class LaneStep(LaneGaps):
    """A lane in a Newton step."""

    system_rows: int | None = field("rows with curvature; null: the lane took no part")
    sigma: float | None = field("its parameter sigma; null: the lane took no part, or its loss needs none")


class NewtonStep(Objectives):
    """A Newton step."""

    step: int = field("its number in the job, from 1")
    scans: int = field("scans over all rows that the job's steps had made")
    system_rows: int = field("rows with curvature, which made up its largest system")
    sigma: float | None = field("sigma of this system; null for losses that need none")
    lanes: list[LaneStep] = sometimes("each lane, if there are several")


class Pass(Figures):
    """A pass over the data, or a round of several machines; the figures are those of the worst of its lanes."""

    pass_: int = field("its number in the job, from 1", alias="pass")
    lane: int = sometimes("number of the first lane that was trained in it, from 0; jobs of earlier versions lack it")
    updates: int = field("visits to rows, over all passes")
    rows_unvisited: int = field("rows that the pass did not visit")
    free_rows: int = field("rows whose dual variable is between its bounds")
    rows_streamed: int = field("rows read, over all passes")
    rows_screened: int = field("rows of these that were not kept because they rest at a bound")
    resident_rows: int = field("rows in the cache")
    resident_bytes: int = field("bytes of the rows in the cache")
    evicted_rows: int = field("rows that have left the cache, over all passes")
    reader_wait_seconds: float = field("seconds for which the reader has waited")
    trainer_wait_seconds: float = field("seconds for which the trainer has waited")
    elapsed_seconds: float = field("seconds of training, over all attempts")
    lanes: list[LaneFigures] = sometimes("each lane, if several were trained side by side")
    sweeps: list[Sweep] = sometimes("sweeps of the pass: the first 31, then ever fewer")
    newton: list[NewtonStep] = sometimes("Newton steps of the pass")
    slowdowns: list[Notice] = sometimes("faster ways that the job gave up in this pass")
    primal_at_zero: float | None = sometimes("of cutting planes: P(0), which their distances are relative to")
    largest_gradient: float | None = sometimes("with a kernel: the largest 1 - y f(x) of the pass")
    smallest_gradient: float | None = sometimes("with a kernel: the smallest 1 - y f(x) of the pass")
    primal_estimate: float | None = sometimes("with a kernel: P, each row's loss as of its last visit")
    support_vectors: int = sometimes("with a kernel: number of support vectors")
    merges: int = sometimes("with a kernel: merges of two support vectors so far")
    weight_degradation: float | None = sometimes("with a kernel: sum of |f before - f after|^2 over the merges")
    merging_seconds: float | None = sometimes("with a kernel: seconds of merges so far")
    visiting_seconds: float | None = sometimes("with a kernel: seconds of visits so far, merges among them")
    spread_change: float | None = sometimes("with a kernel: change of the spread of gradients, which ends training")
    read_bytes: int = sometimes("on several machines: bytes of blocks read, over all rounds")
    step: float | None = sometimes("on several machines: common step along the sum of the changes, at most 1")
    pooled_rows: int = sometimes("on several machines: rows that were trained in one place")
    machines: list[Machine] = sometimes("on several machines: each of them")


class History(Answer):
    """The history of a job."""

    passes: list[Pass] = field("the passes of the job, in order")
