"""Fields of a job that earlier versions had: how stored jobs are translated, and the hint for new jobs that use one.

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
# `selection` is an option of another solver now, with another meaning.
_DROPPED = {*GONE, "selection"}


def migrate(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Translate the fields of a job that any version has stored into those of this version."""
    if "eviction" not in stored:
        return dict(stored)
    fields = {name: value for name, value in stored.items() if name not in _DROPPED}
    # With cutting planes the number of threads decides how sums over rows are rounded: it stays. Elsewhere 1 was the
    # default, and other numbers meant something that this version does not have.
    if stored.get("solver") not in ("cpa", "ocas"):
        fields["threads"] = None
    if stored["eviction"] == "paper":
        fields |= {"solver": _PAPER, **_as_printed(stored)}
        # It had no effect on this solver, and this version refuses it there.
        fields.pop("screening", None)
    return fields


def _as_printed(stored: Mapping[str, Any]) -> dict[str, Any]:
    own = {new: stored[old] for old, new in _RENAMED.items() if old in stored}
    return {name: "pick" if value == "step" else value for name, value in own.items()}
