"""The states of a job, the phases of a running job, and how jobs end. Commands that only watch jobs load it, too."""

from collections.abc import Mapping
from math import exp
from typing import Any

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.scoring import figure_among

# state -> states that may follow. Those with none are terminal.
TRANSITIONS = {
    "queued": ("running", "cancelled"),
    "running": ("queued", "succeeded", "stopped", "failed", "cancelled"),
    "succeeded": (),
    "stopped": (),
    "failed": (),
    "cancelled": (),
}

# Those of a prediction of files, which cannot be stopped.
PREDICTION_STATES = {
    state: tuple(each for each in after if each != "stopped")
    for state, after in TRANSITIONS.items()
    if state != "stopped"
}

# What a running job does. Kernels are compiled when one is used for the first time on a machine.
PHASES = ("starting", "compiling", "training", "certifying", "exporting")

# A user's request to end a job -> the state that the job ends in.
REQUESTS = {"stop": "stopped", "cancel": "cancelled"}

AVERAGED = "averaged"  # stop_reason of a job whose machines made one round and took the mean of their models
STALLED = "stalled"  # the stop_reason in trainer.updates.convergence, which commands without an engine do not load
END_HINTS = {  # stop_reason -> hint, where a larger limit would not help
    AVERAGED: 'Rounds go on to the optimum: train anew with "combine": "line_search".',
    STALLED: "Passes change nothing any more: values, weights of rows or C lie too far apart for numbers of 64 bits.",
}
# How scores without rows held out are called, and of what they are; and what says more.
ESTIMATES = {
    "left_out": ("approximate leave-one-out", "as if each row had been left out of training"),
    "training": ("training", "on the rows it was trained on"),
}
ASK_MORE = '"validation": 0.1 says how good it is on rows it has not seen; so does an evaluation on other rows.'
_LIMITS = ("max_passes", "max_seconds")
_NEARLY = 1e-3  # kernel values so near to 0, or to 1, say nothing


def check_transition(old: str, new: str, kind: str = "job") -> None:
    """Raise ServiceError not_possible if a job, or a prediction, in state `old` cannot go to state `new`."""
    if new not in TRANSITIONS[old]:
        raise ServiceError("not_possible", f"a {kind} that is {old} cannot become {new}")


def warning_of(distances: Mapping[str, Any]) -> str | None:
    """Return a warning if nearly all kernel values are 0, or nearly all 1; else None. See `run_file.distances_of`."""
    gamma, low, middle, high = (distances[name] for name in ("gamma", "low", "median", "high"))
    # Kernel values of rows that are far apart, and of rows that are near each other.
    smallest, largest = exp(-gamma * high), exp(-gamma * low)
    if largest > _NEARLY and smallest < 1.0 - _NEARLY:
        return None
    return (
        f"with gamma {gamma:.3g} nearly all kernel values are {0 if largest <= _NEARLY else 1}: squared distances of "
        f"rows are {low:.3g} to {high:.3g}, {middle:.3g} in the middle; "
        f"a gamma near {1.0 / max(middle, 1e-300):.3g} tells rows apart"
    )


def has_met_goal(result: Mapping[str, Any]) -> bool:
    """Return whether a job met its goal: it converged, or it made the one round of an average that was asked for."""
    return bool(result["converged"]) or result["stop_reason"] == AVERAGED


def limits_met(result: Mapping[str, Any]) -> list[str]:
    """Return which of the fields max_passes and max_seconds ended lanes of the result that have not converged."""
    lanes = [each for each in result.get("lanes", ()) if "stop_reason" in each] or [result]
    reasons = {each["stop_reason"] for each in lanes if not each["converged"]}
    return [name for name in _LIMITS if name in reasons]


def score_of(
    result: Mapping[str, Any] | None, spec: Mapping[str, Any], C: float | None = None
) -> dict[str, Any] | None:
    """The score of a job's model of this C, by default the C that won, on rows held out; else its estimated score.

    None if it is not known, or if there are several models and none has won.
    """
    result, scoring = result or {}, spec.get("scoring", "accuracy")
    C = result.get("selected_C") if C is None else C
    scores = (score_in(each, figure_among(each["mean"], scoring)) for each in result.get("cv", ()) if each["C"] == C)
    lanes = [each for each in result.get("lanes", ()) if each.get("fold") is None and C in (None, each.get("C"))]
    is_one = len({each.get("C") for each in lanes}) == 1
    return next(scores, None) or (estimated_score(lanes[0]) if is_one else None)


def score_in(cv: Mapping[str, Any], metric: str) -> dict[str, Any]:
    """The score of one C: the mean of a metric over the folds that were held out, and its standard deviation."""
    n_folds = len(cv["folds"])
    std = cv["std"][metric] if n_folds > 1 else None
    return {"metric": metric, "value": cv["mean"][metric], "std": std, "folds": n_folds, "rows": "held_out"}


def estimated_score(lane: Mapping[str, Any]) -> dict[str, Any] | None:
    """The score of a model without rows held out, by the result of one of its lanes; None: not known.

    It is the approximate leave-one-out accuracy; if that is not known, the score on the rows of training.
    """
    for rows, told in (("left_out", lane.get("leave_one_out")), ("training", lane.get("training"))):
        for metric, value in (told or {}).items():
            if value is not None:
                own = {"metric": metric, "value": value, "std": None, "folds": 0}
                return {**own, "rows": rows, "hint": ASK_MORE}
    return None


def gap_of(job: Mapping[str, Any]) -> float | None:
    """Return M+ - M- of a job's dict: from the certificate if the job has a result, else from its progress."""
    shown = job["result"].get("certificate") if job["result"] else job["progress"]
    return (shown or {}).get("gap")
