"""Redoes the papers' experiments, by name, all of them without one.

python -m tests.bench.papers [NAME ...] [--write]

`--write` also puts the tables into RESULTS.md; figures are always written, below `figures`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.bench.command import Benches, main
from tests.bench.papers import (
    avsf,
    bm,
    bm_design,
    bsca,
    bsca_budget,
    ocas,
    streamsvm,
    streamsvm_clock,
    streamsvm_race,
)
from tests.bench.papers.runs import timed
from tests.bench.papers.summary import summed_up

PAPERS: Benches = {
    "avsf": timed(avsf.run),
    "bm": {"methods": timed(bm.run), "design": timed(bm_design.run)},
    "bsca": {"merging": timed(bsca.run), "budget": timed(bsca_budget.run)},
    "ocas": {"iterations": timed(ocas.run)},
    "streamsvm": {
        "updates": timed(streamsvm.run),
        "clock": timed(streamsvm_clock.run),
        "race": timed(streamsvm_race.run),
    },
}

RESULTS = Path(__file__).with_name("RESULTS.md")

if __name__ == "__main__":
    ended = main("tests.bench.papers", (__doc__ or "").split("\n")[0], PAPERS, RESULTS)
    RESULTS.write_text(summed_up(RESULTS.read_text()))
    sys.exit(ended)
