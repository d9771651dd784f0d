"""A job's fields as they were stored, by this version or one before it, as a job of this version."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.fields.spec_migrations import migrate


def read_spec(stored: Mapping[str, Any]) -> JobSpec:
    """The job in a record. Raises ServiceError `job_outdated` if there is no such job any more."""
    try:
        return JobSpec.model_validate(migrate(stored))
    except ValidationError as error:
        place = error.errors()[0]["loc"]
        field = f"its {place[0]}" if place else "its fields together"
        message = f"the job was submitted to another version, and this one cannot take {field}"
        raise ServiceError("job_outdated", message, "Submit it anew.") from None
