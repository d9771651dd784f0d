"""scikit-learn's SGDClassifier, fed a chunk at a time from disk."""

import time
from collections.abc import Iterator

from sklearn.linear_model import SGDClassifier

from tests.bench.peers.trial import Trial
from tests.bench.prepared import Prepared

BYTES_PER_VALUE = None
SECONDS_ARE = "partial_fit over chunks of the arrays on disk"
EPOCHS = 20


def run(data: Prepared, C: float) -> Iterator[Trial | None]:
    """Hinge loss, no intercept, its default step sizes; a trial after each epoch."""
    model = SGDClassifier(loss="hinge", alpha=1 / (data.n_rows * C), fit_intercept=False, random_state=0)
    yield None
    seconds = 0.0
    for epoch in range(1, EPOCHS + 1):
        began = time.perf_counter()
        for X, y in data.chunks():
            model.partial_fit(X, y, classes=[-1, 1])
        seconds += time.perf_counter() - began
        yield Trial(f"epoch {epoch}", seconds, model.coef_[0].astype(float))
