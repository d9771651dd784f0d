"""Runs benches by name, all of them without one, and prints their tables.

python -m tests.bench [NAME [PART ...] ...]

`file-to-model a9a imdb.train` compares with LIBLINEAR on these data sets, `file-to-model` on all. The environment
variable SIZE (1GB) is how much text is generated at most, TMPDIR where it lies while a bench runs.
`convergence` takes core seconds that a peer may take from LIMIT (60).

`python -m tests.bench.page` writes RESULTS.md.
"""

from __future__ import annotations

import sys
from functools import partial

from tests.bench import (
    choose_c,
    file_to_model,
    ingest,
    lanes,
    one_row,
    predict_files,
    scale,
    small_memory,
)
from tests.bench.cluster import optimum
from tests.bench.command import Benches, main
from tests.bench.convergence import table
from tests.bench.features import splice

BENCHES: Benches = {
    "file-to-model": {name: partial(file_to_model.run, name) for name in file_to_model.DATA},
    "convergence": table.run,
    "lanes": {name: partial(lanes.run, name) for name in lanes.PARTS},
    "choose-C": {name: partial(choose_c.run, name) for name in choose_c.SETS},
    "features": {"splice": splice.run},
    "cluster": {name: partial(optimum.run, name) for name in optimum.PARTS},
    "one-row": one_row.run,
    "small-memory": small_memory.run,
    "scale": {"text": scale.text, "table": scale.table},
    "ingest": ingest.run,
    "predict-files": predict_files.run,
}

if __name__ == "__main__":
    sys.exit(main("tests.bench", (__doc__ or "").split("\n")[0], BENCHES))
