"""Notes on disk which jobs are to be logged, so that a service that starts again knows them."""

from contextlib import suppress

from streamsvm.service.settings import Settings


def note_due(settings: Settings, job_id: str) -> str:
    """Note that this job is to be logged when it has ended, if the service logs jobs; returns the id."""
    if settings.mlflow_uri:
        settings.tracking.mkdir(exist_ok=True)
        (settings.tracking / job_id).touch()
    return job_id


def due_jobs(settings: Settings) -> list[str]:
    """Ids of the jobs that are to be logged, the oldest first."""
    with suppress(FileNotFoundError):
        return sorted(path.name for path in settings.tracking.iterdir())
    return []


def settle(settings: Settings, job_id: str) -> None:
    """Forget that a job is to be logged."""
    (settings.tracking / job_id).unlink(missing_ok=True)
