"""LIBLINEAR's version for several cores, from scratch for each tolerance, on arranged data in memory.

Its dual solver looks for rows that violate in parallel and updates them one by one (Chiang, Lee, Lin, KDD 2016).
"""

import sys
from collections.abc import Iterator

from tests.bench.peers.apart import installed
from tests.bench.peers.arranged import arrange
from tests.bench.peers.trial import Trial
from tests.bench.prepared import Prepared

BYTES_PER_VALUE = 40
SECONDS_ARE = "training, data in memory in its own layout"
REQUIREMENT = "liblinear-multicore"
EPS = (1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


def run(data: Prepared, C: float, threads: int) -> Iterator[Trial | None]:
    """-s 3 -m THREADS -B -1 -e EPS."""
    # Before anything here loads LIBLINEAR proper, which has the same module name.
    sys.path.insert(0, str(installed(REQUIREMENT)))
    from tests.bench.peers import liblinear  # noqa: PLC0415

    arranged = arrange(data)
    problem = liblinear.binding.problem(arranged.y, arranged.X, -1)
    yield None
    for eps in EPS:
        w, spent = liblinear.trained(problem, f"-s 3 -c {C!r} -e {eps!r} -B -1 -m {threads} -q")
        yield Trial(liblinear.setting(eps), spent, arranged.weights(w))
