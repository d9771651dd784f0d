"""The jobs of the worker: which is next, how its lanes are run, and how it ends."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any, NamedTuple

from streamsvm.service.jobs.lanes.continuing import drop_unsound, inherit, lost_seconds
from streamsvm.service.jobs.lanes.lane_files import abouts_of, newest_lane, settle_lanes, with_lanes
from streamsvm.service.jobs.lanes.runner import LaneRunner
from streamsvm.service.jobs.plan.forecast import memory_needed
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.service.jobs.progress.states import TRANSITIONS
from streamsvm.service.processes.attempts import Attempts, publish
from streamsvm.service.processes.launch import forget_run
from streamsvm.service.processes.run import log_tail
from streamsvm.service.processes.work import Needs, Work
from streamsvm.service.records.store import Store
from streamsvm.service.records.unrecorded import sweep
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.dataset import OF_EARLIER_VERSIONS
from streamsvm.storage.files.durable import make_directory
from streamsvm.storage.machine.resources import memory_limit
from streamsvm.storage.run.checkpoint import newest_checkpoint

_CHECKPOINTS_OF_A_LANE = 1 << 32  # more than there ever are


def needs_of(record: dict[str, Any], plan: JobPlan) -> Needs:
    """The needs of a job on record."""
    is_alone = any(step.get("alone") for step in record["transitions"])
    if plan.spec.machines is not None:
        return Needs(has_cluster=True, is_alone=is_alone)
    return Needs(memory_needed(plan), is_alone=is_alone)


class _RunningJob(NamedTuple):
    """A running job: its record, what it needs, and the runner of its lanes."""

    record: dict[str, Any]
    needs: Needs
    lanes: LaneRunner

    def end(self) -> float | None:
        """End its run; returns the seconds that it has trained."""
        run = self.lanes.run
        if run is None:
            return None
        self.lanes.close()
        return run.control["elapsed_seconds"]

    def hand_back(self) -> None:
        """Leave a checkpoint of where it is."""
        with suppress(Exception):  # died, which is what was wanted
            self.lanes.hand_back()


class JobWork(Work):
    """The jobs of a data directory; as many run at a time as `Settings.jobs_at_once` says and memory has room for."""

    kind, reached, died, is_vital = "job", "crash_checkpoint", "the worker ended while the job ran", True

    def __init__(self, settings: Settings, store: Store) -> None:
        super().__init__(settings, store, settings.jobs, settings.jobs_at_once)
        self._attempts = Attempts(settings, store)
        self._needs: dict[str, Needs] = {}  # of jobs that wait
        self._waits_for: dict[str, frozenset[str]] = {}  # job that first had no room -> jobs that ran then

    def shutdown(self) -> None:
        """Hand the running jobs back, with checkpoints of where they are; they make them at once."""
        threads = [Thread(target=active.hand_back) for active in self.active.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        super().shutdown()

    def _next(self, waiting: list[dict[str, Any]], beside: Collection[Needs]) -> str | None:
        """The first for which there is room; always if no job runs.

        Other jobs may overtake a job without room only until all jobs have ended that ran when it first had no room.
        """
        ids = {record["id"] for record in waiting}
        self._needs = {job_id: needs for job_id, needs in self._needs.items() if job_id in ids}
        self._waits_for = {job_id: jobs for job_id, jobs in self._waits_for.items() if job_id in ids}
        for record in waiting:
            if not self.active or self._fits(self._needs_of(record), beside):
                return record["id"]
            if not self._may_be_overtaken(record):
                return None
        return None

    def _fits(self, needs: Needs, beside: Collection[Needs]) -> bool:
        if needs.is_alone or any(each.is_alone or (each.has_cluster and needs.has_cluster) for each in self.needs):
            return False
        return sum(each.memory_bytes for each in (needs, *self.needs, *beside)) <= memory_limit()

    def _needs_of(self, record: dict[str, Any]) -> Needs:
        if record["id"] not in self._needs:
            try:
                self._needs[record["id"]] = needs_of(record, self._attempts.plan(record))
            except Exception:  # the job is started, and fails with this error
                return Needs()
        return self._needs[record["id"]]

    def _may_be_overtaken(self, record: dict[str, Any]) -> bool:
        if record["id"] not in self._waits_for:
            self._waits_for[record["id"]] = frozenset(self.active)
            self._told(record).info("waits for the memory, the cluster or the end of %s", ", ".join(self.active))
            self._store.explain_job(record["id"], waits_for=sorted(self.active))
        return not self._waits_for[record["id"]].isdisjoint(self.active)

    def _begin(self, record: dict[str, Any]) -> _RunningJob:
        """Start a job: a run of its first lanes that are not done."""
        job_dir = self._directory(record)
        make_directory(job_dir)
        inherit(self._settings.jobs, record)
        plan = self._attempts.plan(record)
        drop_unsound(job_dir, plan)
        begin, replan = partial(self._attempts.begin, record), partial(self._attempts.plan, record)
        lanes = LaneRunner(job_dir, self._settings.datasets / record["dataset_id"], begin, replan, ends_on_stop=True)
        running = _RunningJob(record, needs_of(record, plan), lanes)
        lanes.start(plan, abouts_of(job_dir))
        return running

    def _watch(self, running: _RunningJob) -> None:
        record, lanes, requested = running.record, running.lanes, self._requested(running.record)
        if requested == "cancel":
            self._cancel(record)
            return
        if requested == "stop":
            lanes.request_stop()
        if lanes.step():
            assert lanes.run is not None
            # A job that has succeeded has its models.
            ended = "stopped" if lanes.is_stopped else "succeeded"
            state, reason = publish(self._settings, self._store, record, lanes.run, lanes.outcome, ended)
            self._drop(record["id"])
            with self._tidying(record):
                settle_lanes(self._directory(record), state == "succeeded")
            self._told(record).info("%s, %s", state, reason)

    def _how_far(self, record: dict[str, Any], trained: float | None) -> tuple[int, dict[str, Any]]:
        """The number of the newest checkpoint among those of all lanes. If it cannot be read, there is none."""
        lane, newest = 0, None
        try:
            lane, directory = newest_lane(self._directory(record))
            newest = newest_checkpoint(directory)
        except Exception:
            self._told(record).exception("its checkpoints cannot be read")
        lost = None if trained is None else lost_seconds(newest, trained)
        number = lane * _CHECKPOINTS_OF_A_LANE + (newest.about["number"] if newest else 0)
        return number, {"lost_seconds": lost, "pass": newest.about["pass"] if newest else 1}

    def _handed_back(self, record: dict[str, Any]) -> Mapping[str, Any]:
        return {"attempt": record["attempt"] - 1}

    def _fail(self, record: dict[str, Any], failure: dict[str, Any]) -> None:
        tail = ""
        with suppress(Exception):
            tail = log_tail(self._directory(record) / "log")
        super()._fail(record, {**failure, "log_tail": tail})

    def _tidy(self, record: dict[str, Any]) -> None:
        settle_lanes(self._directory(record), is_complete=False)
        forget_run(record, self._settings)

    def _trained(self, record: dict[str, Any]) -> float | None:
        return self._attempts.directories.trained_seconds(record["id"])

    def _sweep(self) -> None:
        """Remove run directories and half-written files; settle the lanes of jobs that have ended."""
        self._attempts.directories.remove_all()
        sweep(self._settings.models, {record["id"] for record in self._store.models()})
        for name in OF_EARLIER_VERSIONS:
            for left in self._settings.datasets.glob(f"*/{name}"):
                left.unlink(missing_ok=True)
        states = self._store.job_states()
        sweep(self._settings.jobs, states.keys())
        for job_id in with_lanes(self._settings.jobs):
            if TRANSITIONS.get(state := states.get(job_id, "running")) == ():
                with self._tidying({"id": job_id}):
                    settle_lanes(self._settings.jobs / job_id, state == "succeeded")
