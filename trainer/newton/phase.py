"""Newton steps in a job: where they begin and end, what they show, and what they leave to the solver."""

from collections.abc import Callable, Iterator

import numpy as np

from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.newton.choice import is_newton_quicker, system_size
from streamsvm.trainer.newton.own_rows import OwnRows
from streamsvm.trainer.newton.rows import chunks
from streamsvm.trainer.newton.run import NewtonSteps
from streamsvm.trainer.newton.scans import InOrder, Interrupted, Scans
from streamsvm.trainer.newton.system import LARGEST, TooLarge
from streamsvm.trainer.rows.cache import Cursor
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.sweeps.outlook import Outlook
from streamsvm.trainer.sweeps.sweep import Threads
from streamsvm.trainer.updates.convergence import StoppingTargets
from streamsvm.trainer.updates.progress import Sweep
from streamsvm.trainer.updates.updater import Parts

_NEARER = 0.9  # of the targets asked for: the certificate adds up in another order, and may come out a little higher


class NewtonPhase:
    """`run` it over a store of all rows.

    has_begun   it has been run
    has_failed  the systems are too large, or a task is stuck: only sweeps remain
    shown       steps of the last run, for the history
    """

    def __init__(self, settings: TrainerSettings, parts: Parts, cursor: Cursor, threads: Threads) -> None:
        self._settings, self._cursor, self._threads = settings, cursor, threads
        self._variables, self._statistics, _ = parts
        self._shared, self._targets = cursor.shared, StoppingTargets.of(settings)
        # Pace "fixed" promises a number of visits; one problem of all classes, or a shard, is trained by sweeps alone.
        # Without a target there is no end to be near to.
        is_swept = settings.pace == "fixed" or settings.tasks.is_joint or cursor.round is not None
        self._is_ruled_out = is_swept or not self._targets.is_bound
        self.has_begun = self.has_failed = False
        self.shown: list[Sweep] = []

    def is_quicker(self, sweeps: int, outlook: Outlook) -> bool:
        """Whether to end training by Newton steps, see trainer.newton.choice."""
        if self._is_ruled_out or self.has_failed or not is_newton_quicker(sweeps, outlook):
            return False
        has_room = system_size(outlook) <= self._settings.newton_equations
        if not has_room:
            self._shared.slow_down({"newton_without_room"})
        return has_room

    def run(self, store: InOrder, is_late: Callable[[], bool]) -> None:
        """Train the tasks that have not converged until they are near their targets, or the job is interrupted."""
        step, variables = self._cursor.step, self._variables
        variables.begin()
        variables.end()
        self.has_begun, self.shown = True, []
        numbers = np.flatnonzero(variables.is_trained[: self._settings.tasks.count]).tolist()
        alpha, w = variables.alpha[: step.n_rows], variables.w[: step.width]
        scans = Scans(store, step.n_rows, self._settings.visited, self._threads, self._going)
        steps: NewtonSteps | None = None
        most = self._settings.newton_equations
        try:
            rows = OwnRows(self._settings.tasks, scans, alpha, len(w))
            steps = NewtonSteps(self._settings.tasks, rows, w, numbers, self._is_near, most)
            while steps.active and not is_late():
                steps.step()
                self._stand(steps)
                if self._cursor.checkpoints.is_due(ends_pass=False):
                    self._cursor.checkpoints.make_within(step, variables.whole_w)
            self._give_up_if(any(task.is_stuck for task in steps.each.values()), "newton_given_up")
        except (TooLarge, Interrupted) as error:
            is_too_large = isinstance(error, TooLarge)
            self._give_up_if(is_too_large, "newton_given_up" if most == LARGEST else "newton_without_room")
            if steps is not None:
                self._stand(steps)
        self._note_all(step.n_rows)

    def _give_up_if(self, has_failed: bool, because: str) -> None:
        self.has_failed = has_failed
        if has_failed:
            self._shared.slow_down({because})

    def _is_near(self, distance: float, relative_gap: float) -> bool:
        return bool(self._targets.reached(distance / _NEARER, relative_gap / _NEARER))

    def _going(self, segments: Iterator[Segment]) -> Iterator[Segment]:
        for rows in segments:
            if self._shared.is_interrupted:
                return
            self._shared.beat()
            yield rows

    def _stand(self, steps: NewtonSteps) -> None:
        """Write back alpha, w and figures as the steps have them now, for checkpoints and for those who watch."""
        reached, each = steps.put_back(), list(steps.each.values())
        self._statistics.take_exact(
            list(steps.each),
            np.array([task.alpha - task.dual for task in reached]),
            np.array([task.free for task in reached]),
            np.array([[task.found.M_plus for task in each], [task.found.M_minus for task in each]]),
            np.array([task.primal for task in each]),
        )
        progress = self._statistics.progress(self._cursor.step, rows_unvisited=0)
        self._shared.show(progress)
        self.shown.append(Sweep(len(self.shown) + 1, self._shared.elapsed_seconds, progress))

    def _note_all(self, n_rows: int) -> None:
        """Note that every row has been visited, without a change of its score."""
        for chunk in chunks(n_rows):
            row_id = np.arange(chunk.start, chunk.stop, dtype=np.int32)
            self._shared.note(row_id, self._shared.score[row_id])
