"""What all experiments share: how many seeds, how long a run may take, and runs kept so that a command can go on.

SEEDS and LIMIT of the environment say how many seeds a run has (3) and after how many seconds it is given up (LIMITS);
SETS names the data sets that are wanted, with commas between them (all).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.bench.commit import TREE, commit

SEEDS = int(os.environ.get("SEEDS", "3"))
MANY = 10 if SEEDS >= 3 else SEEDS  # seeds of kernel machines, whose paper repeats its runs ten times
SETS = tuple(filter(None, os.environ.get("SETS", "").split(",")))
TIMES = 10.0  # the winner's seconds, after which a run may be given up
NOISE = 1.1  # of two runs alike: what differs by less is undecided
_LEAST_SECONDS = 1.0
# Seconds that a run of an experiment may take, chosen so that all take eight hours on two cores at most.
LIMITS = {
    "avsf": 30.0,
    "bm": 60.0,
    "bm-design": 60.0,
    "ocas": 20.0,
    "streamsvm": 60.0,
    "streamsvm-clock": 20.0,
    "streamsvm-race": 600.0,
}


@dataclass
class _Clock:
    """Seconds by the clock: of the runs that this process asked for, and of those of them that it made itself."""

    asked_for: float = 0.0
    made: float = 0.0


_clock = _Clock()


def limit(experiment: str) -> float:
    """Seconds after which a run of this experiment is given up."""
    return float(os.environ.get("LIMIT", LIMITS.get(experiment, 300.0)))


def timed(experiment: Callable[[], Iterator[str]]) -> Callable[[], Iterator[str]]:
    """The experiment with a last line that says how long it takes: runs kept from before count as if made now."""

    def run() -> Iterator[str]:
        before, began = replace(_clock), time.perf_counter()
        yield from experiment()
        kept_before = (_clock.asked_for - before.asked_for) - (_clock.made - before.made)
        yield f"It took {(time.perf_counter() - began + kept_before) / 60:.0f} minutes."

    return run


def seeds() -> str:
    """How many seeds a run has, in words."""
    return "one seed" if SEEDS == 1 else f"{SEEDS} seeds"


def is_wanted(name: str) -> bool:
    """Whether the experiment is to be done on this data set."""
    return not SETS or name in SETS


def patience(winners_seconds: Iterable[float], most: float) -> float:
    """Seconds after which a run is given up: TIMES what the fastest took that ended by its rule, at most `most`."""
    return min([most, *(max(_LEAST_SECONDS, TIMES * seconds) for seconds in winners_seconds)])


def kept(experiment: str, key: tuple[object, ...], run: Callable[[], Any]) -> Any:
    """What `run` returns, JSON, or what it returned for this key before at this commit.

    Runs of a tree with changes are not kept. They lie in `build/papers/COMMIT`; whoever removes that begins anew.
    """
    measured = commit()
    if measured is None or "-" in measured:
        return _timed(run)[0]
    file = TREE / "build" / "papers" / measured / f"{experiment}.jsonl"
    name_of_run = json.dumps([*key, limit(experiment)])
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    for line in lines:
        if line["run"] == name_of_run:
            _clock.asked_for += line["seconds"]
            return line["result"]
    result, seconds = _timed(run)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as out:
        out.write(json.dumps({"run": name_of_run, "seconds": seconds, "result": result}) + "\n")
    return result


def _timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """Make a run; returns its result and its seconds by the clock."""
    began = time.perf_counter()
    result = run()
    seconds = time.perf_counter() - began
    _clock.asked_for += seconds
    _clock.made += seconds
    return result, seconds
