"""Dual coordinate descent with shrinking over all rows, held in the cache at once: LIBLINEAR's algorithm.

Hsieh, Chang, Lin, Keerthi, Sundararajan, "A dual coordinate descent method for large-scale linear SVM", ICML 2008,
Algorithm 3; Yu, Huang, Lin (2011) for logistic regression, Ho and Lin (2012) for support vector regression. A pass is a
round over the active rows. Rows that are shrunk count as not visited. So M+ - M- ends a run only after a round over all
rows, the final check.
"""

from collections.abc import Generator

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.rows.blocks import Blocks, is_scan_due
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.sweeps.active import ActiveRows
from streamsvm.trainer.updates.progress import PassProgress
from streamsvm.trainer.updates.updater import make_variables

_FIRST_TOLERANCE = 0.1  # LIBLINEAR's, for a job without a tolerance; it is divided by 10 whenever it is reached
_STREAM = 4  # number of this solver's stream of random numbers: other streams of the same seed are independent


def dcd(settings: TrainerSettings, blocks: Blocks, alpha: Array, w: Array) -> Generator[PassProgress, None, None]:
    """Train alpha (n_rows, 1) and w (features, 1) in place. Yields after every pass; never ends by itself."""
    kept = blocks.kept
    block = blocks.next(w)
    _, statistics, updater = make_variables(settings, alpha, w, blocks.note, kept, asks_rest=True)
    rows = ActiveRows(block.fresh, updater, going=blocks.going)
    rows.resume(kept)
    # A job that does not end by M+ - M- alone goes on shrinking, with an ever smaller tolerance.
    goes_on = settings.tolerance is None or settings.relative_gap is not None
    first = settings.tolerance or _FIRST_TOLERANCE
    tolerance = float(kept.get("shrinking", [first])[0]) if goes_on else first
    blocks.keep(lambda: {**statistics.resumable(), **rows.resumable(), "shrinking": np.array([tolerance])})
    while True:
        shrunk, before = rows.shrunk, statistics.updates
        distance = rows.round(np.random.default_rng((settings.seed, _STREAM, block.step.pass_)))
        blocks.end_if_due()
        if distance <= tolerance:
            rows.reactivate()
            if goes_on and not shrunk:
                tolerance /= 10.0
        is_due = not shrunk or is_scan_due(before, statistics.updates, settings.n_rows)
        yield statistics.finish_pass(block.step, shrunk, blocks.primal(block, w, is_due))
        block = blocks.next(w)
