"""What all experiments share: how many seeds, how long a run may take, and runs kept so that a command can go on.

SEEDS and LIMIT of the environment say how many seeds a run has (3) and after how many seconds it is given up (300);
SETS names the data sets that are wanted, with commas between them (all).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from tests.bench.commit import TREE, commit

SEEDS = int(os.environ.get("SEEDS", "3"))
LIMIT = float(os.environ.get("LIMIT", "300"))
SETS = tuple(filter(None, os.environ.get("SETS", "").split(",")))
TIMES = 10.0  # the winner's seconds, after which a run may be given up
NOISE = 1.1  # of two runs alike: what differs by less is undecided
_LEAST_SECONDS = 1.0


def seeds() -> str:
    """How many seeds a run has, in words."""
    return "one seed" if SEEDS == 1 else f"{SEEDS} seeds"


def is_wanted(name: str) -> bool:
    """Whether the experiment is to be done on this data set."""
    return not SETS or name in SETS


def patience(winners_seconds: Iterable[float]) -> float:
    """Seconds after which a run is given up: TIMES what the fastest took that ended by its rule, at most LIMIT."""
    return min([LIMIT, *(max(_LEAST_SECONDS, TIMES * seconds) for seconds in winners_seconds)])


def is_more(ratio: float) -> bool | None:
    """Whether a ratio of two single runs is above 1; None: they differ by no more than NOISE."""
    return None if 1 / NOISE <= ratio <= NOISE else ratio > 1.0


def kept(name: str, key: tuple[object, ...], run: Callable[[], Any]) -> Any:
    """What `run` returns, JSON, or what it returned for this key before at this commit.

    Runs of a tree with changes are not kept. They lie in `build/papers/COMMIT`; whoever removes that begins anew.
    """
    measured = commit()
    if measured is None or "-" in measured:
        return run()
    file, name_of_run = TREE / "build" / "papers" / measured / f"{name}.jsonl", json.dumps([*key, LIMIT])
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    for line in lines:
        if line["run"] == name_of_run:
            return line["result"]
    result = run()
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as out:
        out.write(json.dumps({"run": name_of_run, "result": result}) + "\n")
    return result
