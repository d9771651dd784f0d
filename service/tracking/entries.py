"""Makes what a job's run in MLflow has: parameters, tags, the figures of each pass, and those of the result."""

import json
import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

STATUS = {"succeeded": "FINISHED", "stopped": "FINISHED", "failed": "FAILED", "cancelled": "KILLED"}
_LONGEST_PARAMETER, _LONGEST_TAG = 6000, 5000
_MOST_LANES = 64
_ASIDE = {"pass", "lane"}


class Figure(NamedTuple):
    """A value of a metric, at a time in milliseconds since 1970."""

    key: str
    value: float
    time: int
    step: int


def milliseconds(stamp: str) -> int:
    """Milliseconds since 1970 of a time as a record has it."""
    return round(datetime.fromisoformat(stamp).timestamp() * 1000)


def parameters(spec: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a job, as text; values that are null are left out."""
    found = {name: value if isinstance(value, str) else json.dumps(value) for name, value in spec.items()}
    return {name: text[:_LONGEST_PARAMETER] for name, text in found.items() if text != "null" and name != "labels"}


def tags(record: Mapping[str, Any]) -> dict[str, str]:
    """The tags of a job's run; labels of the job are tags of their own."""
    labels = {f"label.{name}": str(value) for name, value in (record["spec"].get("labels") or {}).items()}
    own = {
        "mlflow.runName": record["id"],
        "mlflow.source.name": "StreamSVM",
        "streamsvm.job": record["id"],
        "streamsvm.state": record["state"],
        "streamsvm.dataset": str(record["spec"].get("dataset")),
    }
    return {name: text[:_LONGEST_TAG] for name, text in {**labels, **own}.items()}


def curve(history: list[dict[str, Any]], begin: int) -> Iterator[Figure]:
    """Yield the figures of each pass of a job that began at this time; those of problems side by side by lane."""
    for record in history:
        at = begin + round(1000 * (record.get("elapsed_seconds") or 0.0))
        for key, value in _numbers(record):
            yield Figure(key, value, at, record["pass"])
        lanes = record.get("lanes") or ()
        for lane in lanes if 1 < len(lanes) <= _MOST_LANES else ():
            for key, value in _numbers(lane):
                yield Figure(f"lane_{lane['lane']}/{key}", value, at, record["pass"])


def outcome(result: Mapping[str, Any] | None, end: int) -> list[Figure]:
    """The figures of a job's result, the certificate among them."""
    found = [Figure(f"result/{key}", value, end, 0) for key, value in _numbers(result or {})]
    certificate = (result or {}).get("certificate") or {}
    return found + [Figure(f"certificate/{key}", value, end, 0) for key, value in _numbers(certificate)]


def _numbers(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for key, value in record.items():
        is_number = isinstance(value, int | float) and math.isfinite(value)
        if is_number and key not in _ASIDE:
            yield key, float(value)
