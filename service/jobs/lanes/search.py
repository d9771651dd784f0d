"""Ends the search of a job with C "auto": says, after each turn of values of C, which lanes follow."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from streamsvm.service.jobs.lanes.outcome import CrossValidation, cross_validation
from streamsvm.service.jobs.plan.plan import JobPlan

_CUT_SHORT = ("stopped", "max_seconds")


def searched(
    plan: JobPlan, job_dir: Path, done: Sequence[Mapping[str, Any]], known: CrossValidation | None = None
) -> JobPlan:
    """Return the plan of a job; once enough values of C are tried, with lanes over all rows in place of larger values.

    `done` has the record of each finished lane. The search ends once the metric has peaked, no value is left, or time
    is up. The result depends on files alone: it is the same after a crash. Raises Crash if a file is damaged.
    """
    if not plan.spec.searches_C or plan.has_searched:
        return plan
    for turn in plan.turns:
        if turn.stop > len(done):
            break
        found = cross_validation(plan, job_dir, turn.stop, known)
        is_cut_short = any(done[number]["result"]["stop_reason"] in _CUT_SHORT for number in turn)
        if found and (found.has_peaked or is_cut_short or turn.stop == len(plan.lanes)):
            Cs = found.Cs if plan.spec.keep == "all" else (found.selected_C,)
            return plan.with_models(turn.stop, Cs)
        known = found
    return plan
