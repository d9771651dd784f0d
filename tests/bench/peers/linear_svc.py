"""scikit-learn's LinearSVC, from scratch for each tolerance."""

import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from tests.bench.peers.trial import Trial
from tests.bench.prepared import Prepared
from tests.bench.usage import Stopwatch, own_core_seconds

BYTES_PER_VALUE = 44
SECONDS_ARE = "fit, its copy into LIBLINEAR's layout included, data in memory as float64"
TOL = (1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


def run(data: Prepared, C: float) -> Iterator[Trial | None]:
    """Hinge loss, no intercept, the dual solver."""
    X, y = data.load()
    X = X.astype(np.float64)
    yield None
    for tol in TOL:
        model = LinearSVC(C=C, loss="hinge", dual=True, fit_intercept=False, tol=tol, max_iter=1000, random_state=0)
        watch = Stopwatch(own_core_seconds)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        yield Trial(f"tol {tol:g}", watch.total(), model.coef_[0])
