"""Fields of a job that earlier versions had: what becomes of them in stored jobs, and what to say to who asks for one.

0.1.0   eviction, paper_..., selection; threads was a number, of which streamsvm made another use
"""

from collections.abc import Mapping
from typing import Any

_PAPER = "streamsvm_paper"
_RENAMED = {
    "paper_epsilon": "epsilon_start",
    "paper_beta": "epsilon_decay",
    "paper_reset": "epsilon_reset",
    "paper_gradient": "epsilon_gradient",
}

# Field -> what to do instead.
GONE = {
    "eviction": f'The rule of the paper is a solver of its own: "solver": "{_PAPER}".',
    **{name: f'It is {renamed} of the solver "{_PAPER}".' for name, renamed in _RENAMED.items()},
}
# A solver has an option of this name, and means something else by it.
_DROPPED = {*GONE, "selection"}


def migrate(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of this version of a job that any version has stored."""
    if "eviction" not in stored:
        return dict(stored)
    fields = {name: value for name, value in stored.items() if name not in _DROPPED}
    # Elsewhere 1 was what nobody had chosen, and other numbers meant something that is gone. With cutting planes they
    # are part of what makes a run what it is: sums over rows are made by as many.
    if stored.get("solver") not in ("cpa", "ocas"):
        fields["threads"] = None
    if stored["eviction"] == "paper":
        fields |= {"solver": _PAPER, **_as_printed(stored)}
        # It was of no effect, and is an option of another solver now.
        fields.pop("screening", None)
    return fields


def _as_printed(stored: Mapping[str, Any]) -> dict[str, Any]:
    own = {new: stored[old] for old, new in _RENAMED.items() if old in stored}
    return {name: "pick" if value == "step" else value for name, value in own.items()}
