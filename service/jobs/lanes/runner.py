"""The loop over a job's lanes: runs some at a time until all are done, for the worker and for a command alike."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from streamsvm.service.jobs.lanes.lane_files import abouts_of, keep_outcomes, outcome_of
from streamsvm.service.jobs.outcome.cross_validation import cross_validation
from streamsvm.service.jobs.outcome.lane_model import lane_outcome
from streamsvm.service.jobs.outcome.outcome import Outcome
from streamsvm.service.jobs.plan.following import FollowPlan
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.run.state import Control

Plan = JobPlan | FollowPlan


class Run(Protocol):
    """Trains the lanes of a plan: in processes of this machine, in this process, or on the machines of a cluster.

    directory      its files, which `results` leaves complete
    control        its control page
    lane           the lanes that it trains, as run.json names them
    pause_seconds  how long a caller with nothing else to do waits between two polls
    """

    directory: Path
    control: Control
    lane: dict[str, Any]
    pause_seconds: float

    def start(self) -> None:
        """Begin to train. Raises OSError if the machine has no room for its processes."""

    def poll(self) -> bool:
        """Whether training has ended; raises ServiceError if it failed."""

    def request_stop(self) -> None:
        """Ask it to end after the running pass."""

    def hand_back(self) -> None:
        """Leave a checkpoint of where training is and end, if that takes a few seconds; raises as `poll` does."""

    def results(self) -> list[dict[str, Any]]:
        """The trainer's report on each lane, once training has ended."""

    def close(self) -> None:
        """End its processes, whether or not they are done."""


class Attempt(Protocol):
    """A run that has been started, and the reports on how far it is."""

    @property
    def run(self) -> Run:
        """The run."""

    def poll(self, plan: Plan) -> bool:
        """Poll the run, and report how far it is. Whether it has ended."""

    def close(self) -> None:
        """End the run and remove its directory."""


class LaneRunner:
    """`start` it with a plan, `step` until that returns True, take the `outcome`; `close` it in any case.

    job_dir        keeps the models of lanes that are done, and the history
    dataset        directory of the dataset
    begin          lays out and starts a run of the plan's next lanes
    replan         plans the job anew while its dataset is still being read in
    ends_on_stop   after a stop, lanes that have not begun are left out; otherwise each of them runs
    """

    def __init__(
        self,
        job_dir: Path,
        dataset: Path,
        begin: Callable[[Plan], Attempt],
        replan: Callable[[], Plan],
        ends_on_stop: bool = False,
    ) -> None:
        self._job_dir, self._dataset = job_dir, dataset
        self._begin, self._replan = begin, replan
        self._ends_on_stop = ends_on_stop
        self._plan: Plan | None = None
        self._attempt: Attempt | None = None
        self._outcome: Outcome | None = None
        self.is_stopped = False

    def __enter__(self) -> "LaneRunner":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def run(self) -> Run | None:
        """The run that has been started last, until `close`."""
        return None if self._attempt is None else self._attempt.run

    @property
    def outcome(self) -> Outcome:
        """The outcome of the job, after `step` has returned True."""
        assert self._outcome is not None, "lanes are still to be run"
        return self._outcome

    def start(self, plan: Plan, done: Sequence[Mapping[str, Any]] = ()) -> None:
        """Start the lanes that follow those that are done. Raises what `begin` raises."""
        self.close()
        self._plan = plan.next_lanes(done) if isinstance(plan, JobPlan) else plan
        self._attempt = self._begin(self._plan)

    def request_stop(self) -> None:
        """Ask the run to end after the pass that it is in."""
        if self._attempt is not None:
            self._attempt.run.request_stop()

    def hand_back(self) -> None:
        """Have the run leave a checkpoint of where it is, and end."""
        if self._attempt is not None:
            self._attempt.run.hand_back()

    def step(self) -> bool:
        """Look after the run, and start the next one when it has ended; whether all lanes are done."""
        assert self._attempt is not None, "start() comes first"
        if isinstance(self._plan, FollowPlan):
            self._plan = self._replan()
            if isinstance(self._plan, JobPlan) and len(self._plan.lanes) > 1:
                # The run has taken the first two labels for all labels of the dataset.
                self.start(self._plan)
                return False
        assert self._plan is not None
        has_ended = self._attempt.poll(self._plan)
        return has_ended and isinstance(self._plan, JobPlan) and self._finish(self._attempt.run, self._plan)

    def close(self) -> None:
        """End the run, if one is there."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.close()

    def _finish(self, run: Run, plan: JobPlan) -> bool:
        """Keep the models of a run's lanes, and start the next lanes; returns whether there are none."""
        reported = run.results()
        self.is_stopped = "stopped" in {each["stop_reason"] for each in reported}
        make = partial(lane_outcome, plan, self._dataset, run.directory, reported)
        if len(plan.lanes) == 1:
            model = make(0)
            return self._end(plan, [model.about], lambda _: model)
        keep_outcomes(self._job_dir, plan, run.directory, make)
        done = abouts_of(self._job_dir)
        if len(done) < len(plan.lanes) and not (self.is_stopped and self._ends_on_stop):
            self.start(plan, done)
            return False
        return self._end(plan, done, partial(outcome_of, self._job_dir))

    def _end(self, plan: JobPlan, done: Sequence[Mapping[str, Any]], model_of: Callable[[int], Model]) -> bool:
        self._outcome = Outcome(plan, done, model_of, cross_validation(plan, self._job_dir, len(done)))
        return True
