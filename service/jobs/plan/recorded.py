"""Plans a job on record, as far as its dataset is known."""

from typing import Any

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import read_spec
from streamsvm.service.jobs.plan.following import FollowPlan, plan_following
from streamsvm.service.jobs.plan.plan import JobPlan, plan_job
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.manifest import read_manifest


def plan_recorded(settings: Settings, store: Store, record: dict[str, Any]) -> JobPlan | FollowPlan:
    """The plan of a job on record. Raises ServiceError if the dataset does not suit, or is gone."""
    spec, state = read_spec(record["spec"]), store.dataset_state(record["dataset_id"])
    if state == "ready":
        return plan_job(spec, read_manifest(settings.datasets / record["dataset_id"]))
    if state == "ingesting":
        return plan_following(spec, settings.max_features)
    teller = "The answer to its upload" if state is None else "The failure of its import"
    raise ServiceError("dataset_lost", "the dataset could not be read in", f"{teller} says why.")
