"""The lanes of a job as its page shows them: those planned, with the results of those that are done."""

from collections.abc import Sequence
from typing import Any

from streamsvm.api.context import AppContext
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import read_spec
from streamsvm.service.jobs.plan.lanes import labels_of, lanes_of
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.errors import StorageError

_NAME = ("class", "fold", "C")


def lanes_of_job(context: AppContext, record: dict[str, Any]) -> list[dict[str, Any]]:
    """One dictionary for each lane, in the order of their numbers: class, fold and C, and its result if it is done.

    If the dataset is gone, or has changed since, only lanes that are done.
    """
    done = (record["result"] or {}).get("lanes", [])
    results = {_name(lane): lane for lane in done}
    planned = _planned(context, record)
    if len(done) == len(planned) or not results.keys() <= set(map(_name, planned)):
        return done
    return [{**lane, **results.get(_name(lane), {})} for lane in planned]


def lane_names(lanes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Class, fold and C of each lane: the scripts of the page name lanes by them."""
    return [dict(zip(_NAME, _name(lane), strict=True)) for lane in lanes]


def _planned(context: AppContext, record: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        spec = read_spec(record["spec"])
        manifest = read_manifest(context.settings.datasets / record["dataset_id"])
        return [lane.view for lane in lanes_of(spec, labels_of(spec, manifest), manifest)]
    except (ServiceError, StorageError):
        return []


def _name(lane: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(lane.get(name) for name in _NAME)
