"""Takes jobs from the queue as long as there is room: a slot, memory, and disk space to record that they run."""

import logging
import sqlite3
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from streamsvm.service.jobs.plan.forecast import memory_needed
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.service.processes.logs import JobLog
from streamsvm.service.processes.retry_policy import is_full
from streamsvm.service.records.store import Store
from streamsvm.service.records.table import LastRead
from streamsvm.storage.machine.resources import memory_limit

_MOST_LOOKED_AT = 50
_log = logging.getLogger("streamsvm.worker")


class Needs(NamedTuple):
    """The resources that a job needs while it runs.

    memory_bytes  bytes of memory, by the job's plan
    has_cluster   the job runs on the Ray cluster, which one job has at a time
    is_alone      no other job may run beside it: it ran when a worker died, and may kill the worker again
    """

    memory_bytes: int = 0
    has_cluster: bool = False
    is_alone: bool = False

    @classmethod
    def of(cls, record: dict[str, Any], plan: JobPlan) -> "Needs":
        """Return the needs of a recorded job with this plan."""
        is_alone = any(step.get("alone") for step in record["transitions"])
        if plan.spec.machines is not None:
            return cls(has_cluster=True, is_alone=is_alone)
        return cls(memory_needed(plan), is_alone=is_alone)

    def fit_beside(self, running: Collection["Needs"], predicting_bytes: int = 0) -> bool:
        """Return whether the job has room beside running jobs and a prediction; True if no job runs."""
        if not running:
            return True
        if self.is_alone or any(each.is_alone or (each.has_cluster and self.has_cluster) for each in running):
            return False
        taken = predicting_bytes + sum(each.memory_bytes for each in running)
        return self.memory_bytes + taken <= memory_limit()


class Queue:
    """The queue of jobs: `claim` takes the next job from it.

    plan  function that plans a recorded job
    """

    def __init__(self, store: Store, plan: Callable[[dict[str, Any]], JobPlan]) -> None:
        self._store = store
        self._plan = plan
        self._records = LastRead(store, lambda: store.waiting(_MOST_LOOKED_AT))
        self._is_told = False
        self._needs: dict[str, Needs] = {}  # of jobs that wait
        self._waits_for: dict[str, frozenset[str]] = {}  # job that first had no room -> jobs that ran then

    def claim(
        self, pausing: Collection[str], running: Mapping[str, Needs], predicting_bytes: int = 0
    ) -> dict[str, Any] | None:
        """Record the next job that has room as running; return its record, None if no job has room or the disk is full.

        pausing           ids of jobs that are passed over
        running           id of each running job -> what it needs
        predicting_bytes  memory of the prediction of files that runs beside the jobs
        A full disk must not end the worker: that would count as a crash of each job whose end is not recorded yet. Nor
        may the worker end if the records cannot be read while jobs run.
        """
        try:
            job_id = self._next(pausing, running, predicting_bytes)
            record = None if job_id is None else self._store.claim(job_id)
        except sqlite3.Error as error:
            if not is_full(error) and not running:
                raise
            if not self._is_told:
                _log.warning("no job is begun while %s", "the disk is full" if is_full(error) else error)
            self._is_told = True
            return None
        self._is_told = False
        return record

    def _next(self, pausing: Collection[str], running: Mapping[str, Needs], predicting_bytes: int) -> str | None:
        """Return the id of the first waiting job that has room; None: no job has.

        Other jobs may overtake a job without room only until all jobs have ended that ran when it first had no room.
        """
        waiting = {each["id"]: each for each in self._records() if each["id"] not in pausing}
        self._needs = {job_id: needs for job_id, needs in self._needs.items() if job_id in waiting}
        self._waits_for = {job_id: jobs for job_id, jobs in self._waits_for.items() if job_id in waiting}
        for job_id, record in waiting.items():
            if not running or self._needs_of(record).fit_beside(running.values(), predicting_bytes):
                return job_id
            if not self._may_be_overtaken(job_id, running):
                return None
        return None

    def _needs_of(self, record: dict[str, Any]) -> Needs:
        if record["id"] not in self._needs:
            try:
                self._needs[record["id"]] = Needs.of(record, self._plan(record))
            except Exception:  # the job is started, and fails with this error
                return Needs()
        return self._needs[record["id"]]

    def _may_be_overtaken(self, job_id: str, running: Mapping[str, Needs]) -> bool:
        if job_id not in self._waits_for:
            self._waits_for[job_id] = frozenset(running)
            JobLog(_log, job_id).info("waits for the memory, the cluster or the end of %s", ", ".join(running))
            self._store.explain_job(job_id, waits_for=sorted(running))
        return not self._waits_for[job_id].isdisjoint(running)
