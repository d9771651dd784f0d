"""Newton steps within a job: when they begin and end, what they show, and what they leave to the solver."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from streamsvm.storage.rows.csr import EMPTY, Array
from streamsvm.trainer.newton.choice import Outlook, has_room, is_newton_quicker
from streamsvm.trainer.newton.own_rows import OwnRows, chunks
from streamsvm.trainer.newton.run import NewtonSteps, near_by
from streamsvm.trainer.newton.scans import Interrupted, Scans, go_on
from streamsvm.trainer.newton.system import LARGEST, SMALL, TooLarge
from streamsvm.trainer.newton.task import Left
from streamsvm.trainer.problem.losses import make_loss
from streamsvm.trainer.rows.cache import Cursor
from streamsvm.trainer.rows.disk import RowStore
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.sweeps.sweep import Threads
from streamsvm.trainer.updates.convergence import StoppingTargets
from streamsvm.trainer.updates.progress import NewtonStep, PassProgress, TaskStep
from streamsvm.trainer.updates.updater import SolverParts

# Arrays of a checkpoint: a line for each task that goes on (its number, all fields of `Left` but w), and w of each.
_LEFT, _LEFT_W = "newton", "newton_w_{}"
_SHARE_OF_ROWS = 0.1  # features / rows, at most, where leave-one-out is approximated


class NewtonPhase:
    """The phase of Newton steps in a job: `run` it over a store of all rows.

    goes_on  the phase has begun, maybe before the checkpoint that `kept` comes from, and has not failed: no sweep is
             needed before `run`. It fails if systems are too large, or a task is stuck; then only sweeps remain
    shown    Newton steps of the last run, for the history
    """

    def __init__(
        self,
        settings: TrainerSettings,
        parts: SolverParts,
        cursor: Cursor,
        threads: Threads,
        kept: Mapping[str, Array] = EMPTY,
    ) -> None:
        self._settings, self._cursor, self._threads = settings, cursor, threads
        self._variables, self._statistics, _ = parts
        self._shared, self._targets = cursor.shared, StoppingTargets.of(settings)
        # Pace "fixed" promises a number of visits; one problem of all classes is trained by sweeps alone, and so
        # is what ends at a share of its gap. Without a target there is no end to be near to.
        is_swept = settings.pace == "fixed" or settings.tasks.is_joint or settings.share_of_gap is not None
        self._most_equations = settings.newton_equations or 0
        self._is_ruled_out = is_swept or not self._targets.is_bound or settings.newton_equations is None
        self._left = _left(kept)  # where the steps of tasks are that still go on
        self._has_begun = _LEFT in kept and not self._is_ruled_out
        self._has_failed = False
        self._scans_before = 0  # made by earlier runs
        self.shown: list[NewtonStep] = []

    @property
    def goes_on(self) -> bool:
        """Whether the phase has begun and has not failed, see above."""
        return self._has_begun and not self._has_failed

    def resumable(self) -> dict[str, Array]:
        """Return the arrays from which a new phase goes on, as its `kept`."""
        if not self.goes_on:
            return {}
        lines = [(number, *of_task[1:]) for number, of_task in self._left.items()]
        return {
            _LEFT: np.array(lines, float).reshape(-1, len(Left._fields)),
            **{_LEFT_W.format(number): of_task.w for number, of_task in self._left.items()},
        }

    def is_quicker(self, sweeps: int, outlook: Outlook) -> bool:
        """Whether to make Newton steps after `sweeps` sweeps, because they are quicker and there is room for them."""
        tasks = self._settings.tasks
        is_smooth = make_loss(tasks.loss, tasks.epsilon).is_smooth
        if self._is_ruled_out or self._has_failed or not is_newton_quicker(sweeps, outlook, is_smooth):
            return False
        fits = has_room(outlook, self._most_equations)
        if not fits:
            self._shared.slow_down({"newton_without_room"})
        return fits

    def run(self, store: RowStore, is_late: Callable[[], bool]) -> None:
        """Train the tasks that have not converged until they are near their targets, or the job is interrupted."""
        step, variables = self._cursor.step, self._variables
        variables.begin()
        variables.end()
        self._has_begun, self.shown = True, []
        self._scans_before = int(self._shared.control["scans"])
        numbers = np.flatnonzero(variables.is_trained[: self._settings.tasks.count]).tolist()
        alpha, w = variables.alpha[: step.n_rows], variables.w[: step.width]
        scans = Scans(store, step.n_rows, self._settings.visited, self._threads, self._shared.uninterrupted)
        steps: NewtonSteps | None = None
        most = self._most_equations
        self._shared.note_left_out(0.0)
        try:
            rows = OwnRows(self._settings.tasks, scans, alpha, len(w))
            steps = NewtonSteps(
                self._settings.tasks, rows, w, numbers, near_by(self._targets), most, self._left,
                partial(go_on, self._shared), scans.side_by_side,
            )  # fmt: skip
            while steps.active and not is_late():
                taking_part = steps.taking_part()
                steps.step()
                self._show(self._put_back(steps), steps.scans, taking_part)
                if self._cursor.checkpoints.is_due(ends_pass=False):
                    self._cursor.checkpoints.make_within(step, variables.whole_w)
            self._give_up_if(any(task.is_stuck for task in steps.each.values()), "newton_given_up")
            if all(task.is_done for task in steps.each.values()) and self._may_leave_out(len(w)):
                self._shared.note_left_out(rows.left_out_accuracy(numbers))
        except (TooLarge, Interrupted) as error:
            is_too_large = isinstance(error, TooLarge)
            self._give_up_if(is_too_large, "newton_given_up" if most == LARGEST else "newton_without_room")
            if steps is not None:
                self._shared.show(self._put_back(steps))
        for chunk in chunks(step.n_rows):  # the pass has visited every row, whose scores have not changed
            row_id = np.arange(chunk.start, chunk.stop, dtype=np.int32)
            self._shared.note(row_id, self._shared.score[row_id])

    def _may_leave_out(self, n_features: int) -> bool:
        """Whether leave-one-out is cheap, and near the truth, which it is not with few rows or with hinge loss."""
        tasks = self._settings.tasks
        loss = make_loss(tasks.loss, tasks.epsilon)
        most = min(SMALL, self._most_equations, _SHARE_OF_ROWS * self._cursor.step.n_rows)
        return loss.is_smooth and not loss.is_regression and n_features <= most

    def _give_up_if(self, has_failed: bool, because: str) -> None:
        self._has_failed = has_failed
        if has_failed:
            self._shared.slow_down({because})

    def _put_back(self, steps: NewtonSteps) -> PassProgress:
        """Write back alpha and its w, store where the steps are and the best w, and return the figures reached."""
        reached, each = steps.put_back(), list(steps.each.values())
        steps.offer_best(self._cursor.model)
        self._statistics.take_exact(
            list(steps.each),
            np.array([task.alpha - task.dual for task in reached]),
            np.array([task.free for task in reached]),
            np.array([[task.found.M_plus for task in each], [task.found.M_minus for task in each]]),
            np.array([task.primal for task in each]),
        )
        self._left = steps.left()
        return self._statistics.progress(self._cursor.step, rows_unvisited=0)

    def _show(self, progress: PassProgress, scans: int, taking_part: Mapping[int, TaskStep]) -> None:
        """Show a step in the job's state, and add it to `shown`, for the history."""
        number, elapsed = int(self._shared.control["newton_steps"]) + 1, self._shared.elapsed_seconds
        step = NewtonStep(number, elapsed, self._scans_before + scans, progress, taking_part)
        self._shared.show_step(step)
        self.shown.append(step)


def _left(kept: Mapping[str, Array]) -> dict[int, Left]:
    found = {}
    for number, sigma, most_sigma, steps, checks in kept.get(_LEFT, np.empty((0, len(Left._fields)))).tolist():
        found[int(number)] = Left(kept[_LEFT_W.format(int(number))], sigma, most_sigma, int(steps), int(checks))
    return found
