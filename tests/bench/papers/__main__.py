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
    streamsvm_cache,
    streamsvm_clock,
)
from tests.bench.papers.runs import timed
from tests.bench.papers.summary import summed_up

PAPERS: Benches = {
    "avsf": timed(avsf.run),
    "bm": {"methods": timed(bm.run), "design": timed(bm_design.run), "memory": timed(bm_memory.run)},
    "bsca": {"merging": timed(bsca.run), "budget": timed(bsca_budget.run), "stop": timed(bsca_stop.run)},
    "ocas": {"iterations": timed(ocas.run), "time": timed(ocas_time.run)},
    "streamsvm": {
        "updates": timed(streamsvm.run),
        "clock": timed(streamsvm_clock.clock),
        "cache": timed(streamsvm_cache.cache),
        "averaging": timed(averaging.run),
    },
}

RESULTS = Path(__file__).with_name("RESULTS.md")

if __name__ == "__main__":
    ended = main("tests.bench.papers", (__doc__ or "").split("\n")[0], PAPERS, RESULTS)
    RESULTS.write_text(summed_up(RESULTS.read_text()))
    sys.exit(ended)
