"""One peer on one data set, in this process; prints a line of JSON for its loading and for each trial.

    python -m tests.bench.peers NAME DIRECTORY C ENOUGH SECONDS

Ends at an objective of ENOUGH or after SECONDS of its own, objectives not counted. Exit code 3 with the reason: it
cannot run here.
"""

import importlib
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tests.bench.memory import Peak
from tests.bench.peers import PEERS
from tests.bench.prepared import read_prepared

CANNOT_RUN = 3


def main(name: str, directory: Path, C: float, enough: float, most_seconds: float) -> int:
    """Body of the command."""
    try:
        module_name, fields = PEERS[name]
        module = importlib.import_module(f"tests.bench.peers.{module_name}")
        data = read_prepared(directory)
        peak = Peak()
        trials = module.run(data, C, **fields)
        next(trials)
        print(json.dumps({"loaded_bytes": peak.take()}), flush=True)
    except ImportError as error:
        print(json.dumps({"cannot_run": f"cannot be run: {error}"}))
        return CANNOT_RUN
    ran, began = 0.0, time.monotonic()
    for trial in trials:
        ran += time.monotonic() - began
        peak_bytes = peak.take()
        objective = data.primal_objective(trial.w, C)
        found = {"setting": trial.setting, "objective": objective, "peak_bytes": peak_bytes}
        print(json.dumps({**found, **asdict(trial.spent)}), flush=True)
        if objective <= enough or ran > most_seconds:
            break
        peak.begin()  # what the objective took is not the peer's
        began = time.monotonic()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), *map(float, sys.argv[3:6])))
