"""Snap ML's support vector machine, from scratch for each tolerance, on arranged data in memory.

Dual coordinate descent by threads that each keep buckets of rows (Dünner and others, NeurIPS 2018; Ioannou, Mendler-
Dünner, Parnell, NeurIPS 2019). Its regularizer is the weight of 1/2 |w|^2 where losses are summed up: 1/C here.
"""

import warnings
from collections.abc import Iterator
from typing import Any

from tests.bench.peers.arranged import arrange
from tests.bench.peers.trial import Trial
from tests.bench.prepared import Prepared
from tests.bench.usage import Stopwatch, own_core_seconds

BYTES_PER_VALUE = 40
SECONDS_ARE = "its solver, data in memory as it takes them"
TOL = (0.1, 0.01, 0.001, 1e-4, 3e-5, 1e-5, 1e-6)
MOST_EPOCHS = 10_000


def _timed() -> Any:
    """Its class without what Python does before the solver: types of arrays, numbers of classes.

    Loading it makes this process take numbers below 1e-308 for 0: only where it runs.
    """
    with warnings.catch_warnings():
        # It asks numpy for AVX2 in a place that is deprecated: were the warning an error, it would do without.
        warnings.simplefilter("ignore", DeprecationWarning)
        from snapml import SupportVectorMachine  # noqa: PLC0415

    class Timed(SupportVectorMachine):
        def c_fit(self, *arguments):
            watch = Stopwatch(own_core_seconds)
            found = super().c_fit(*arguments)
            self.spent = watch.total()
            return found

    return Timed


def run(data: Prepared, C: float, threads: int) -> Iterator[Trial | None]:
    """Hinge loss, no intercept, rows as they are."""
    machine = _timed()
    arranged = arrange(data)
    yield None
    for tol in TOL:
        model = machine(
            loss="hinge", regularizer=1 / C, fit_intercept=False, normalize=False, n_jobs=threads, tol=tol,
            max_iter=MOST_EPOCHS, random_state=0,
        )  # fmt: skip
        model.fit(arranged.X, arranged.y)
        yield Trial(f"tol {tol:g}", model.spent, arranged.weights(model.coef_))
