"""Non-zeros a second of the coordinate descent kernel and of LIBLINEAR's loop, on the same rows in memory."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
from liblinear import liblinear as binding
from scipy import sparse

from streamsvm.reader.ingest.renumber import Renumbering
from streamsvm.storage.rows.cache_plan import LARGEST_SEGMENT, LMDB_PAGE_HEADER, SMALLEST_SEGMENT
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment, SegmentBuilder, packed_bytes, room, view
from streamsvm.trainer.kernels.coordinate import GAP
from streamsvm.trainer.kernels.hinge import Dual, VisitNotes, Weights, visit_rows
from streamsvm.trainer.kernels.order import permutation
from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.updates.updater import NO_LOCK, NO_REST
from tests.bench import liblinear_speed
from tests.bench.prepared import prepare_generated, size_limit
from tests.bench.real_data import Rows, is_there, rows_of
from tests.bench.report import header, prose, row
from tests.contracts.objectives import plain_segment

C = 1.0
REPEATS = 5
_COPIES_OF_A9A = 20  # one is a matter of milliseconds


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        "Hinge loss, C = 1, no bias, one core, million non-zeros a second from the second sweep on, medians of "
        f"{REPEATS} in turn; compiling left out. StreamSVM's kernel goes through segments in random order, rows "
        "permuted inside, from Python as its solver does; LIBLINEAR's loop as `tests/bench/liblinear_speed.py` says."
    )
    yield from header(
        "rows", "number", "features", "non-zeros a row", "LIBLINEAR", "1 MiB segments", "ratio", "small segments",
        "KiB", "ratio", "target of 1 MiB",
    )  # fmt: skip
    for name, target, make in _DATA:
        data = make()
        yield row(name, "not available") if data is None else _line(name, target, *data)


def _generated(rows: int, features: int, row_length: float) -> Rows:
    """At most SIZE of text."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        settings = {"rows": rows, "features": features, "row_length": row_length}
        return prepare_generated(Path(directory) / "data", size_limit(), **settings).load()


def _real(name: str, copies: int = 1) -> Rows | None:
    if not is_there(name):
        return None
    X, y = rows_of(name)
    return sparse.vstack([X.astype(np.float32)] * copies).tocsr(), np.tile(y, copies)


# name, target, what makes it
_DATA: tuple[tuple[str, float, Callable[[], Rows | None]], ...] = (
    ("text-like, short", 3.0, lambda: _generated(400_000, 200_000, 50.0)),
    ("text-like, long", 1.7, lambda: _generated(100_000, 1 << 22, 300.0)),
    (f"a9a, {_COPIES_OF_A9A} times", 1.0, lambda: _real("a9a", _COPIES_OF_A9A)),
    ("mnist8", 1.0, lambda: _real("mnist8")),
)


def _line(name: str, target: float, X: sparse.csr_matrix, y: np.ndarray) -> str:
    small = smallest_segment(int(np.diff(X.indptr).max()))
    seconds = _sweeps_in_turn(X, y, (LARGEST_SEGMENT, small))
    theirs, large_speed, small_speed = (f"{X.nnz / one / 1e6:.0f}" for one in seconds)
    large_ratio, small_ratio = (f"{seconds[0] / one:.2f}x" for one in seconds[1:])
    shape = (f"{X.shape[0]:,}", f"{X.shape[1]:,}", f"{X.nnz / X.shape[0]:.0f}")
    return row(name, *shape, theirs, large_speed, large_ratio, small_speed, small >> 10, small_ratio, f"{target:g}x")


def _sweeps_in_turn(X: sparse.csr_matrix, y: np.ndarray, sizes: tuple[int, ...]) -> list[float]:
    """Median seconds of a sweep: LIBLINEAR's, and the kernel's over segments of each size."""
    problem = binding.problem(y, X, -1)
    eps = liblinear_speed.eps_of_fewest_sweeps(lambda eps: liblinear_speed.run(problem, C, eps).sweeps)
    segments = [make_segments(X, y, size) for size in sizes]
    measured = []
    for _ in range(REPEATS + 1):
        longer = liblinear_speed.longer_run(problem, C, eps)
        shorter = liblinear_speed.run(problem, C, liblinear_speed.HUGE_EPS)
        ours = [kernel_sweep_seconds(part, X.shape, longer.sweeps) for part in segments]
        measured.append((liblinear_speed.sweep_seconds(shorter, longer), *ours))
    # The first time compiles.
    return [median(column) for column in zip(*measured[1:], strict=True)]


def smallest_segment(longest_row: int) -> int:
    """The least segment that holds such a row: SMALLEST_SEGMENT or a larger power of two."""
    size = SMALLEST_SEGMENT
    while room(size - LMDB_PAGE_HEADER) < packed_bytes(1, longest_row):
        size *= 2
    return size


def make_segments(X: sparse.csr_matrix, y: np.ndarray, size: int, seed: int = 0) -> list[Segment]:
    """The rows at random in segments of `size` bytes, LMDB's header taken off: read-only, as in the cache.

    Features are numbered as a dataset numbers them.
    """
    Qii = np.add.reduceat(np.append(X.data.astype(float) ** 2, 0.0), X.indptr[:-1]) * (np.diff(X.indptr) > 0)
    ids = np.arange(X.shape[0], dtype=np.int32)
    indices = X.indices.copy()
    features = Renumbering()
    features.observe(indices, X.shape[0])
    features.settle()
    features.apply(indices)
    source = plain_segment(ids, y, Qii, X.indptr.astype(np.int64), indices, X.data.astype(np.float32))
    builder = SegmentBuilder(size - LMDB_PAGE_HEADER)
    left = np.random.default_rng(seed).permutation(X.shape[0])
    segments = []
    while len(left):
        left = left[builder.add(source, left) :]
        segments.append(view(builder.take()))
    return segments


def kernel_sweep_seconds(segments: list[Segment], shape: tuple[int, int], sweeps: int) -> float:
    """Seconds of a sweep after the first, on the average of `sweeps`; hinge loss, from alpha = 0."""
    rng = np.random.default_rng(0)
    alpha, w = np.zeros(shape[0]), np.zeros(shape[1])
    _sweep(segments, rng, alpha, w)
    began = time.perf_counter()
    for _ in range(sweeps - 1):
        _sweep(segments, rng, alpha, w)
    return (time.perf_counter() - began) / (sweeps - 1)


def _sweep(segments: list[Segment], rng: np.random.Generator, alpha: Array, w: Array) -> None:
    for number in rng.permutation(len(segments)).tolist():
        rows = segments[number]
        order = np.empty(len(rows), np.int32)
        permutation(int(rng.integers(1, 1 << 32)), order)
        notes = VisitNotes(np.empty(len(rows), np.float32), np.empty(len(rows)), NO_REST)
        visit_rows(
            order, rows.columns, Tasks.single("hinge", C).table, GAP, Dual(alpha, alpha), Weights(w, NO_LOCK), notes
        )
