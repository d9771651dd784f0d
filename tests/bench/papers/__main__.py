"""Redoes the papers' experiments, by name, all of them without one.

python -m tests.bench.papers [NAME ...] [--write]

`--write` also puts the tables into RESULTS.md; figures are always written, below `figures`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.bench.command import Benches, main
from tests.bench.papers import (
    averaging,
    avsf,
    bm,
    bm_design,
    bm_memory,
    bsca,
    bsca_budget,
    bsca_stop,
    ocas,
    ocas_time,
    streamsvm,
    streamsvm_clock,
)

PAPERS: Benches = {
    "avsf": avsf.run,
    "bm": {"methods": bm.run, "design": bm_design.run, "memory": bm_memory.run},
    "bsca": {"merging": bsca.run, "budget": bsca_budget.run, "stop": bsca_stop.run},
    "ocas": {"iterations": ocas.run, "time": ocas_time.run},
    "streamsvm": {
        "updates": streamsvm.run,
        "clock": streamsvm_clock.clock,
        "cache": streamsvm_clock.cache,
        "averaging": averaging.run,
    },
}

if __name__ == "__main__":
    sys.exit(main("tests.bench.papers", (__doc__ or "").split("\n")[0], PAPERS, Path(__file__).with_name("RESULTS.md")))
