"""Answers about jobs."""

from typing import TYPE_CHECKING, Literal

from pydantic import create_model

from streamsvm.api.answers import Answer, field, sometimes
from streamsvm.api.answers.inputs import Notice
from streamsvm.api.answers.progress import Progress
from streamsvm.api.answers.results import JobResult
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.progress.states import PHASES, REQUESTS, TRANSITIONS

if TYPE_CHECKING:
    State = str

    class _Fields(Answer): ...

else:
    State = Literal[tuple(TRANSITIONS)]
    _Fields = create_model(
        "_Fields",
        __base__=Answer,
        **{name: (known.annotation, sometimes(known.description)) for name, known in JobSpec.model_fields.items()},
    )


class JobFields(_Fields):
    """The fields of a job with their defaults filled in; jobs of earlier versions lack those that came later."""

    dataset: str = field("name of the dataset that it trains on", example="rcv1")


class KnownRows(Answer):
    """The rows that a job which began with another job's solution has in common with it."""

    rows: int = field("rows that the other job knew")
    of: int = field("rows of the dataset")


class Notified(Answer):
    """How the call of a job's `notify` stands."""

    state: Literal["waiting", "delivered", "given_up"] = field("whether the URL was told of the end")
    attempts: int = field("calls made")
    at: str = sometimes("time at which it was told or given up, UTC", example="2026-11-25T09:17:25.382Z")
    status: int = sometimes("status of the receiver's answer, 200 to 299")
    failure: str = sometimes("why the last call failed", example="it answered 500")
    next_at: str = sometimes("time of the next call, UTC", example="2026-11-25T09:17:30.382Z")


class Tracking(Answer):
    """How the log of a job to the MLflow server of the service stands."""

    state: Literal["waiting", "logged", "given_up"] = field("whether the server has the job's run")
    run_id: str = sometimes("id of the run", example="6d1b7a0b1f0f4b3a9b0f2f6f3f1c2d3e")
    at: str = sometimes("time at which it was logged or given up, UTC", example="2026-11-25T09:17:25.382Z")
    attempts: int = sometimes("attempts that have failed")
    failure: str = sometimes("why the last one failed", example="Connection refused")
    next_at: str = sometimes("time of the next attempt, UTC", example="2026-11-25T09:17:30.382Z")


class Transition(Answer):
    """A change of a job's state."""

    state: State = field("the state that it came to")
    at: str = field("time, UTC", example="2026-11-25T09:17:25.382Z")
    reason: str = sometimes("why it was queued again, or `checkpoint_lost`: why it began anew", example="process_died")
    lost_seconds: float | None = sometimes("seconds of training that a crash has cost; null if that is not known")
    pass_: int = sometimes("pass of the checkpoint that the job goes on from after a crash", alias="pass")
    warm_start: KnownRows = sometimes("what it has in common with the job that it began with")
    slowdowns: list[Notice] = sometimes("faster ways that this attempt gave up")
    notified: Notified = sometimes("how the call of `notify` stands, if the job has one and has ended")
    tracking: Tracking = sometimes("how the log to MLflow stands, if the service logs jobs and this one has ended")
    alone: bool = sometimes("true: it runs without others from now on, for a worker died while several jobs ran")
    waits_for: list[str] = sometimes(
        "jobs that ran when its turn came, and left no room for it", example=["job_01M8BJAEG2GZ073NZER7QN7ACC"]
    )


class JobFailure(Answer):
    """The reason why a job failed."""

    code: str = field("the kind of failure", example="crash_loop")
    message: str = field("what happened, for people")
    hint: str = field("what helps, for people; empty if nothing is known to")
    log_tail: str = field("the last lines of the job's log")


class Job(Answer):
    """A job: what was asked for, how far it is, and what came of it."""

    id: str = field("id of the job", example="job_01M8BJAEG2GZ073NZER7QN7ACC")
    spec: JobFields = field("what was asked for")
    state: State = field("its state; jobs that are succeeded, stopped, failed or cancelled have ended")
    attempt: int = field("attempts begun; more than one after crashes")
    created_at: str = field("time of the request, UTC", example="2026-11-25T09:17:25.382Z")
    started_at: str | None = field("time at which the first attempt began; null before")
    finished_at: str | None = field("time at which the job ended; null before")
    transitions: list[Transition] = field("all changes of its state, in order")
    model_id: str | None = field(
        "id of the model; of several values of C that of the best, by folds, or else of the largest; null if there is "
        "none",
        example="mdl_01M8BJAJCVF2WHNP7BNYZN1BVC",
    )
    requested: Literal[tuple(REQUESTS)] | None = field(  # type: ignore[valid-type]
        "`stop` or `cancel` if that was asked for while it ran; else null"
    )
    continues: str | None = field("id of the job that it resumes, or null")
    progress: Progress | None = field("how far it is, or was at its end; null before it runs")
    result: JobResult | None = field("what came of it; null until it has succeeded or was stopped")
    failure: JobFailure | None = field("why it failed; else null")
    phase: Literal[PHASES] | None = field(  # type: ignore[valid-type]
        "what a running job does; null if it does not run"
    )
    seq: int = field("number that grows with every change of state and every pass: `after` of a later request")
    warnings: list[Notice] = field("what people should know about it")


class Jobs(Answer):
    """A page of jobs."""

    jobs: list[Job] = field("the jobs, the newest first")
    next_page_token: str | None = field("`page_token` of the page with older jobs; null: there are none")
