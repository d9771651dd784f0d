"""scikit-learn's SGDClassifier, fed a chunk at a time from disk."""

from collections.abc import Iterator

from sklearn.linear_model import SGDClassifier

from tests.bench.peers.trial import Trial
from tests.bench.prepared import Prepared
from tests.bench.usage import Spent, Stopwatch, own_core_seconds

BYTES_PER_VALUE = None
SECONDS_ARE = "partial_fit over chunks of the arrays on disk"
EPOCHS = 20


def run(data: Prepared, C: float) -> Iterator[Trial | None]:
    """Hinge loss, no intercept, its default step sizes; a trial after each epoch."""
    model = SGDClassifier(loss="hinge", alpha=1 / (data.n_rows * C), fit_intercept=False, random_state=0)
    yield None
    spent = Spent(0.0, 0.0)
    for epoch in range(1, EPOCHS + 1):
        watch = Stopwatch(own_core_seconds)
        for X, y in data.chunks():
            model.partial_fit(X, y, classes=[-1, 1])
        spent += watch.total()
        yield Trial(f"epoch {epoch}", spent, model.coef_[0].astype(float))
