"""The answer to POST /v1/jobs/estimate."""

from streamsvm.api.answers import Answer, field


class MemoryEstimate(Answer):
    """Bytes of memory that a job holds."""

    processes_bytes: int = field("interpreters and compiled code of reader and trainer")
    buffers_bytes: int = field("rows on their way")
    rows_bytes: int = field("dual variables and what is known of each row")
    features_bytes: int = field("weights")
    solver_bytes: int = field("what the solver holds beside these")
    newton_bytes: int = field("what Newton steps hold more than sweeps do")
    cache_bytes: int = field("the cache")
    total_bytes: int = field("all together")


class DiskEstimate(Answer):
    """Bytes on disk that a job takes."""

    model_bytes: int = field("its model")
    run_bytes: int = field("files of the run, which lie in memory if there is room")
    spill_bytes: int = field("most bytes of decoded rows; 0 if they are not kept")


class LanesEstimate(Answer):
    """The groups in which the problems of a job are trained."""

    count: int = field("problems")
    at_once: int = field("problems trained side by side")
    groups: int = field("groups that are trained one after the other")


class NewtonEstimate(Answer):
    """The answer to whether a job may take Newton steps."""

    is_possible: bool = field("whether it may")
    ruled_out_by: str | None = field("why it may not", example="rows_not_at_hand")
    message: str | None = field("why it may not, or when, for people")
    equations: int = field("most equations that a system may have; 0 if it may not")


class Estimate(Answer):
    """An estimate: memory, disk and time that a job would take."""

    memory: MemoryEstimate = field("memory")
    disk: DiskEstimate = field("disk")
    lanes: LanesEstimate = field("its problems")
    seconds_per_pass: float = field("seconds a pass over the data, on the slow side")
    newton: NewtonEstimate = field("Newton steps")
    cache_share: float = field("share of the rows that the cache holds, at most 1")
