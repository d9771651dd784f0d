"""Every kernel on small inputs, as bytes."""

import itertools
from typing import NamedTuple

import numpy as np

from streamsvm.reader.certificate.certificate_kernel import dots_and_sums
from streamsvm.reader.ingest import ingest_kernel
from streamsvm.reader.stream import stream_kernel
from streamsvm.storage.features import maps_kernel
from streamsvm.storage.files import codec_kernel
from streamsvm.storage.rows import csr, segment_kernel
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import CODE, NO_COLUMN, Columns
from streamsvm.trainer.kernels.coordinate import DISTANCE, GAP, VIOLATION
from streamsvm.trainer.kernels.crammer_singer import visit_crammer_singer
from streamsvm.trainer.kernels.cutting_planes import breakpoints, minimise_on_simplex, move_along, slope_after
from streamsvm.trainer.kernels.hinge import Dual, VisitNotes, Weights, move_on, visit_rows
from streamsvm.trainer.kernels.hinge_lanes import visit_lanes
from streamsvm.trainer.kernels.logistic_and_regression import visit_logistic_or_regression
from streamsvm.trainer.kernels.order import adapt, next_random, permutation, sample_visits, share_visits
from streamsvm.trainer.kernels.pegasos import pegasos_visits
from streamsvm.trainer.newton.system_kernel import add_squares, spread_out
from streamsvm.trainer.problem.lane_kernel import (
    add_in_lanes,
    dots_of_lanes,
    move_lanes,
    squares_of_lanes,
    sums_of_lanes,
)
from streamsvm.trainer.problem.losses import REGRESSION
from streamsvm.trainer.problem.tasks import KindTable, Task, Tasks
from streamsvm.trainer.solvers.streamsvm_paper_kernel import Arrivals, Listing, Ways, drawn, paper_visits
from streamsvm.trainer.updates.statistics import VisitSums
from tests.contracts.problems import random_problem


class Box(NamedTuple):
    """U and D of the rows with y = +1 and of those with y = -1."""

    U_positive: float
    D_positive: float
    U_negative: float
    D_negative: float

    @property
    def table(self) -> KindTable:
        """The table of one task on two classes."""
        U, D = [[self.U_positive], [self.U_negative]], [[self.D_positive], [self.D_negative]]
        return KindTable(1, *map(np.array, ([[1.0], [-1.0]], U, D)))


BOXES = {"hinge": Box(2.0, 0.0, 0.5, 0.0), "squared_hinge": Box(np.inf, 0.25, np.inf, 1.0)}
NO_LOCK = np.empty(0, np.int64)


def columns(n_rows=40, seed=0) -> Columns:
    """The columns of a segment, read-only as in the cache."""
    X, y = random_problem(n_rows, 60, 8, seed=seed)
    X = X.sorted_indices()
    rng = np.random.default_rng(seed)
    # A row without values, and values of all sizes.
    indptr = np.concatenate([X.indptr, X.indptr[-1:]]).astype(np.int32)
    values = (X.data * rng.choice([1e-3, 1.0, 30.0], X.nnz)).astype(np.float32)
    squares = np.concatenate([[0.0], np.cumsum(values.astype(float) ** 2)])
    row_id = rng.permutation(2 * n_rows + 2)[: n_rows + 1].astype(np.int32)
    class_code = (np.append(y, 1) < 0).astype(CODE)
    arrays = Columns(
        row_id, class_code, np.zeros_like(class_code), np.diff(squares[indptr]), indptr, X.indices.copy(), values,
        NO_COLUMN.copy(), NO_COLUMN.copy(),
    )  # fmt: skip
    for array in arrays:
        array.setflags(write=False)
    return arrays


def dense_columns(has_indices: bool = False) -> Columns:
    """Rows of 60 values, one of 57 and one of none, with the indices that dense rows leave out, or without."""
    rows = columns()
    lengths = np.array([60] * (len(rows.row_id) - 2) + [57, 0])
    values = np.random.default_rng(5).standard_normal(lengths.sum()).astype(np.float32)
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    indices = np.concatenate([np.arange(length, dtype=np.int32) for length in lengths])
    squares = np.concatenate(([0.0], np.cumsum(values.astype(float) ** 2)))
    indices = indices if has_indices else indices[:0]
    return rows._replace(Qii=np.diff(squares[indptr]), indptr=indptr, indices=indices, values=values)


def signs(rows: Columns) -> Array:
    """y of the rows of `columns`."""
    return 1.0 - 2.0 * rows.class_code


def weights_of(rows: Columns, first: float, last: float) -> Columns:
    """The rows with weights between these."""
    return rows._replace(weight=np.linspace(first, last, len(rows.row_id)).astype(np.float32))


def notes(count: int, asks_rest: bool = True) -> VisitNotes:
    """Of so many visits."""
    rest = np.full(count if asks_rest else 0, np.nan, np.float32)
    return VisitNotes(np.full(count, np.nan, np.float32), np.full(count, np.nan), rest)


def visit(order, rows, box, alpha, w, kind=GAP, before=None, lock=NO_LOCK, told=None):
    """What visit_rows returns; without momentum, unless there is a `before`. `told` are the notes."""
    told = notes(len(order)) if told is None else told
    dual = Dual(alpha, alpha if before is None else before)
    return visit_rows(order, rows, box.table, kind, dual, Weights(w, lock), told)


def compute() -> dict[str, bytes]:
    """What every kernel makes of its input."""
    rows = columns()
    indptr, indices, values = rows.indptr, rows.indices, rows.values
    n_rows = len(rows.row_id)
    rng = np.random.default_rng(1)
    found = {"next_random": b"".join(int(next_random(s)).to_bytes(8, "big") for s in (1, 77, 2**32 - 1))}
    found |= of_rows(rows) | {f"{name}, dense": made for name, made in of_rows(dense_columns()).items()}

    for n in (1, 2, 100):
        order = np.empty(n, np.int32)
        permutation(12345, order)
        found[f"permutation {n}"] = order.tobytes()

    squares = np.empty(n_rows)
    csr.squared_norms(indptr, values, squares)
    found["squared_norms"] = squares.tobytes()
    bits = rng.standard_normal(n_rows).view(np.int32).reshape(-1, 2), indptr, indices, values.view(np.int32)
    bucket_of, slot = np.arange(n_rows) % 3, np.array([2, 0, 1])
    memory, used, rows_in = np.zeros((3, 250), np.int32), np.zeros(3, np.int64), np.zeros(3, np.int64)
    first_out = ingest_kernel.scatter(0, bucket_of, *bits, slot, memory, used, rows_in)
    assert 0 < first_out < n_rows
    found["scatter"] = b"".join(array.tobytes() for array in (memory, used, rows_in)) + bytes([first_out])
    count = int(rows_in[1])
    out = np.zeros((count, 2), np.int32), np.zeros(count + 1, int), np.zeros(200, np.int32), np.zeros(200, np.int32)
    ingest_kernel.gather(memory[0, : used[1]], rng.permutation(count), *out)
    found["gather"] = b"".join(array.tobytes() for array in out)

    planes = np.empty(values.nbytes, np.uint8)
    codec_kernel.split_bytes(values.view(np.uint32), planes)
    back, wide = np.empty(len(values), np.uint32), np.empty(len(values) // 2, np.uint64)
    codec_kernel.join_bytes(planes, back)
    codec_kernel.join_bytes(planes[: wide.nbytes], wide)
    found["split_bytes"], found["join_bytes"] = planes.tobytes(), back.tobytes() + wide.tobytes()
    large = np.array([0, 2**31 - 1, 5, 7, 2**31 - 2, 1 << 16], np.int32)
    pointers = np.array([0, 2, 2, 5, 6], np.int64)
    steps = np.empty(len(large), np.int32)
    codec_kernel.differences(large, pointers, steps)
    found["differences"] = steps.tobytes()
    codec_kernel.integrate(pointers, steps)
    found["integrate"] = steps.tobytes()

    found |= (
        _of_a_large_w(rows)
        | _of_several_classes(rows, ((5, 8, csr.LARGE_W // 8 // 50),))
        | _of_the_reader(rows, rng)
        | _of_cutting_planes()
        | _of_feature_maps()
    )
    return found


def of_rows(rows: Columns) -> dict[str, bytes]:
    """Run the kernels that read features on rows, sparse or dense; returns their results by name."""
    indptr, indices, values, n_rows = rows.indptr, rows.indices, rows.values, len(rows.row_id)
    found, rng = _of_other_losses(rows) | _of_several_classes(rows), np.random.default_rng(2)
    w, dots = rng.standard_normal(60), np.empty(n_rows)
    csr.row_dots(indptr, indices, values, w[:50], dots)
    ends = itertools.pairwise(indptr.tolist())
    found["dot"] = np.array([csr.dot(indices, values, start, end, w) for start, end in ends]).tobytes()
    total, pairs = w.copy(), rng.standard_normal(2 * len(w))
    csr.add_rows(np.where(np.arange(n_rows) % 4, rng.standard_normal(n_rows), 0.0), indptr, indices, values, total)
    found["row_dots and add_rows"] = dots.tobytes() + total.tobytes()
    dots_and_sums(np.where(np.arange(n_rows) % 4, 0.5, 0.0), indptr, indices, values, pairs, dots)
    found["dots_and_sums"] = dots.tobytes() + pairs.tobytes()
    picked, matrix, spread = np.arange(0, n_rows, 2, dtype=np.int32), np.zeros((60, 60), order="F"), np.zeros((21, 60))
    add_squares(picked, np.linspace(0.5, 2.0, len(picked)), indptr, indices, values, matrix)
    spread_out(picked, np.linspace(0.5, 2.0, len(picked)), indptr, indices, values, spread)
    found["add_squares and spread_out"] = matrix.tobytes() + spread.tobytes()
    for loss, box in BOXES.items():
        found |= _of_a_loss(rows, loss, box)
    v, state = np.zeros(60), np.array([1.0, 0.0])
    for sweep in range(3):
        order = np.random.default_rng(sweep).permutation(n_rows).astype(np.int32)
        pegasos_visits(order, rows, Tasks.single("hinge", 1.0, 0.5).table, 0.01, sweep * n_rows, v, state)
    found["pegasos_visits"] = v.tobytes() + state.tobytes()
    return found


def _of_a_loss(rows, loss, box) -> dict[str, bytes]:
    n_rows, found = len(rows.row_id), {}
    alpha, weights = np.zeros(2 * n_rows), np.zeros(60)
    preference, credit = np.ones(2 * n_rows, np.float32), np.full(2 * n_rows, 0.5, np.float32)
    visits, mean = np.zeros(n_rows, np.int32), np.zeros(2)
    results, told = [], notes(n_rows)
    for sweep in range(3):
        order = np.random.default_rng(sweep).permutation(n_rows).astype(np.int32)
        results.append(visit(order, rows, box, alpha, weights, told=told))
        adapt(order, rows.row_id, told.gain, n_rows, preference, mean)
        share_visits(rows.row_id, 0.9, preference, credit, visits)
    found[f"visit_rows {loss}"] = b"".join(a.tobytes() for a in (alpha, weights, *told, np.array(results)))
    left = np.array([n_rows, preference[rows.row_id].sum(dtype=float)])
    sample_visits(rows.row_id, 9, preference, left, visits)
    found[f"sample_visits {loss}"] = visits.tobytes() + left.tobytes()
    share_visits(rows.row_id, 0.9, preference, credit, visits)
    found[f"adapt {loss}"] = preference.tobytes() + mean.tobytes()
    found[f"share_visits {loss}"] = visits.tobytes() + credit.tobytes()
    for kind in (GAP, VIOLATION, DISTANCE):
        for lock in (NO_LOCK, np.zeros(1, np.int64)):
            found[f"visit_rows {loss} {kind} {len(lock)}"] = _visited(rows, box, kind, lock)
    for lanes in (1, 3, 7, 16):
        found[f"visit_lanes {loss} {lanes}"] = _visited_in_lanes(rows, loss, lanes)

    alpha, weights = np.zeros(2 * n_rows), np.zeros(60)
    listing, rule = all_listed(rows.row_id, 2 * n_rows), np.array([np.inf, 0.0, 0.0, float(n_rows), 0.0])
    results, places = [], np.empty(60, np.int64)
    for sweep in range(6):
        order = np.random.default_rng(sweep).integers(0, n_rows, 60, dtype=np.int32)
        ways = Ways(30.0, 0.9, float(n_rows), sweep % 2 > 0, sweep % 3 > 0)
        # In each sweep five rows come in again, three of them in the place of random ones.
        at, done = np.arange(0, 50, 10), np.array([0, 0, 0, 1])
        arrivals = Arrivals(rows.row_id[sweep::12][:5].copy(), at, rows.row_id[1:40:5].copy(), done)
        results.append(paper_visits(order, rows, box.table, ways, arrivals, listing, alpha, weights, rule))
        drawn(7, int(rule[3]), listing, arrivals, places)
        found[f"drawn {loss} {sweep}"] = places.tobytes()
    assert (listing.slot[rows.row_id] < 0).any()
    found[f"paper_visits {loss}"] = b"".join(
        a.tobytes() for a in (alpha, weights, listing.slot, rule, np.array(results))
    )
    return found


def all_listed(row_id, n_rows: int) -> Listing:
    """The rows with these ids are listed, of `n_rows` in all."""
    ids, slot = np.zeros(n_rows, np.int32), np.full(n_rows, -1, np.int32)
    ids[: len(row_id)], slot[row_id] = row_id, np.arange(len(row_id))
    return Listing(ids, slot, np.arange(n_rows))


def _visited(rows, box, kind, lock) -> bytes:
    """Four sweeps with momentum."""
    n_rows, rng = len(rows.row_id), np.random.default_rng(1)
    alpha, w, told, results = np.zeros(2 * n_rows), np.zeros(60), notes(n_rows), []
    before, earlier_w = alpha.copy(), w.copy()
    for sweep in range(4):
        move_on(alpha, before, 0.5 if sweep else 0.0)
        move_on(w, earlier_w, 0.5 if sweep else 0.0)
        order = rng.permutation(n_rows).astype(np.int32)
        results.append(visit(order, rows, box, alpha, w, kind, before, lock, told))
    assert not lock.any()
    return b"".join(array.tobytes() for array in (alpha, w, *told, np.array(results)))


def _visited_in_lanes(rows, loss, lanes) -> bytes:
    """Four sweeps with momentum over rows of three kinds; then what the reader makes of them."""
    n_rows, rng = len(rows.row_id), np.random.default_rng(lanes)
    each = tuple(Task(lane % 3, lane % 2 if lane % 5 else None, 0.5 + lane, 1.0) for lane in range(lanes))
    tasks = Tasks(loss, each, (0.0, 1.0, 2.0), n_folds=2)
    codes, folds = (rng.integers(0, count, n_rows).astype(CODE) for count in (3, 2))
    there, width = rows._replace(class_code=codes, fold=folds), tasks.width
    there = weights_of(there, 0, 2) if lanes % 2 else there
    table, lock = tasks.table, np.zeros(lanes % 2, np.int64)
    alpha, w, score = np.zeros((2 * n_rows, width)), np.zeros((60, width)), np.empty(n_rows, np.float32)
    before, earlier_w, beta = alpha.copy(), w.copy(), np.linspace(0.0, 0.7, width)
    sums = VisitSums.none(width)
    for sweep in range(4):
        move_lanes(alpha, before, beta * (sweep > 0))
        move_lanes(w, earlier_w, beta * (sweep > 0))
        order = rng.permutation(n_rows).astype(np.int32)
        dual = Dual(alpha.reshape(-1), before.reshape(-1))
        visit_lanes(order, there, table, dual, Weights(w.reshape(-1), lock), score, sums)
    dots, squares, total = np.empty((n_rows, width)), np.empty(width), np.empty(width)
    dots_of_lanes(rows.indptr, rows.indices, rows.values, w.reshape(-1), dots)
    add_in_lanes(dots, rows.indptr, rows.indices, rows.values, w.reshape(-1))
    squares_of_lanes(w, squares)
    sums_of_lanes(alpha, total)
    return b"".join(array.tobytes() for array in (alpha, w, score, *sums, dots, squares, total))


def _of_other_losses(rows) -> dict[str, bytes]:
    """Logistic regression and both kinds of regression, four sweeps with momentum, in one lane and in several."""
    n_rows, found = len(rows.row_id), {}
    numbers = rows._replace(target=signs(rows).astype(np.float32), class_code=np.zeros_like(rows.class_code))
    for loss, lanes, weighs in itertools.product(("logistic", *REGRESSION), (1, 3, 11), (False, True)):
        own = rows if loss == "logistic" else numbers
        own = weights_of(own, 0.0, 2) if weighs else own
        each = tuple(Task(0, None, 0.5 + lane, 0.5) for lane in range(lanes))
        tasks = Tasks(loss, each, (1.0, -1.0) if loss == "logistic" else (), epsilon=0.1)
        tube, lock = -1.0 if loss == "logistic" else tasks.epsilon, np.zeros(int(weighs), np.int64)
        alpha, w = np.zeros((2 * n_rows, tasks.width)), np.zeros((60, tasks.width))
        before, earlier_w, beta = alpha.copy(), w.copy(), np.full(tasks.width, 0.7)
        score, rest, sums = np.empty(n_rows, np.float32), np.empty(n_rows, np.float32), VisitSums.none(tasks.width)
        for sweep in range(4):
            move_lanes(alpha, before, beta * (sweep > 0))
            move_lanes(w, earlier_w, beta * (sweep > 0))
            order = np.random.default_rng(sweep).permutation(n_rows).astype(np.int32)
            dual, weights = Dual(alpha.reshape(-1), before.reshape(-1)), Weights(w.reshape(-1), lock)
            visit_logistic_or_regression(order, own, tasks.table, tube, dual, weights, score, rest, sums)
        found[f"visit_logistic_or_regression {loss} {lanes} {weighs}"] = b"".join(
            a.tobytes() for a in (alpha, w, score, rest, *sums)
        )
    return found


def _of_several_classes(rows, shapes=((3, 3, 1), (5, 8, 1), (21, 24, 1))) -> dict[str, bytes]:
    """Crammer and Singer's machine, four sweeps with momentum, with weights and without; a stretched w is large."""
    n_rows, found = len(rows.row_id), {}
    for n_classes, lanes, stretch in shapes:
        codes = np.random.default_rng(n_classes).integers(0, n_classes, n_rows).astype(CODE)
        plain = rows._replace(class_code=codes, indices=rows.indices * np.int32(stretch))
        U = np.linspace(0.5, 2.0, n_classes)[:, np.newaxis] * (np.arange(lanes) < n_classes)
        table = KindTable(1, U, U, 0 * U)
        for there in (plain, weights_of(plain, 0, 2)):
            lock = np.zeros(min(len(there.weight), 1), np.int64)
            alpha, w, told, results = np.zeros(2 * n_rows * lanes), np.zeros(60 * stretch * lanes), notes(n_rows), []
            before, earlier_w = alpha.copy(), w.copy()
            for sweep in range(4):
                if stretch == 1:  # a large w would take plain Python long
                    move_on(alpha, before, 0.5 if sweep else 0.0)
                    move_on(w, earlier_w, 0.5 if sweep else 0.0)
                order = np.random.default_rng(sweep).permutation(n_rows).astype(np.int32)
                dual, weights = Dual(alpha, before), Weights(w, lock)
                results.append(visit_crammer_singer(order, there, table, n_classes, dual, weights, told))
            assert (w.size > csr.LARGE_W) == (stretch > 1)
            name = f"visit_crammer_singer {n_classes} {lanes} {stretch} {len(there.weight)}"
            found[name] = b"".join(array.tobytes() for array in (alpha, w, *told, np.array(results)))
    return found


def _of_a_large_w(rows) -> dict[str, bytes]:
    """Where w is so long that the kernels ask for weights ahead: features all over it, some beyond its end."""
    indptr, indices, values = rows.indptr, rows.indices, rows.values
    n_rows, d = len(indptr) - 1, csr.LARGE_W + 600
    spread = (indices * (d // 58)).astype(np.int32)
    assert spread.max() > d > csr.LARGE_W
    w, dots = np.random.default_rng(2).standard_normal(d), np.empty(n_rows)
    csr.row_dots(indptr, spread, values, w, dots)
    inside = spread % d
    csr.add_rows(np.where(np.arange(n_rows) % 4, dots, 0.0), indptr, inside, values, w)
    pairs, own = np.stack([w, np.zeros(d)], axis=1).reshape(-1), np.empty(n_rows)
    dots_and_sums(dots, indptr, inside, values, pairs, own)
    alpha, order = np.zeros(2 * n_rows), np.arange(n_rows, dtype=np.int32)[::-1].copy()
    visit(order, rows._replace(indices=inside), BOXES["hinge"], alpha, w)
    return {
        "row_dots large": dots.tobytes(),
        "dots_and_sums large": own.tobytes() + pairs.tobytes(),
        "add_rows and visit_rows large": w.tobytes() + alpha.tobytes(),
    }


def _of_the_reader(rows, rng) -> dict[str, bytes]:
    row_id, indptr = rows.row_id, rows.indptr
    n_rows, n_all = len(row_id), 2 * len(row_id)
    m, alpha = rng.normal(1, 1, (n_rows, 1)), rng.choice([0.0, 0.5, 2.0], (n_all, 1))
    U = BOXES["hinge"].table.U
    is_resident, leaving = rng.random((2, n_all)) < 0.2
    skipped, visited = rng.integers(0, 3, (2, n_all)).astype(np.uint8)
    kind, new = np.zeros(n_rows, np.uint8), np.zeros(n_rows, np.int64)
    books = is_resident, skipped, visited
    counts = [stream_kernel.classify(rows, 0, m, 0.1, 1, U, -1.0, is_resident, leaving, alpha, kind, new)]
    counts += stream_kernel.account(row_id, kind, indptr, 2, *books)
    assert min(counts) > 0
    entered = b"".join(array.tobytes() for array in (kind, new[: counts[0]], *books, np.array(counts)))

    score = rng.normal(size=n_all).astype(np.float32)
    score[rng.random(n_all) < 0.2] = np.inf
    table = rng.integers(0, n_all, (4, 30)).astype(np.int32), rng.integers(16, 99, (4, 30)).astype(np.int32)
    slots, used = np.array([3, 0, 2]), np.array([30, 7, 0, 21])
    of_segment, scores, sizes = np.empty(51, np.int32), np.empty(51, np.float32), np.empty(51, np.int32)
    stream_kernel.gather(slots, used, *table, score, skipped, visited, 2, of_segment, scores, sizes)
    assert (scores == -np.inf).any()
    chosen, worth = np.zeros(51, bool), np.zeros(3)
    segment_kernel.best_rows(scores.view(np.int32), sizes, of_segment, 1500.0, chosen, worth)
    assert 0 < chosen.sum() < 51
    looked_up = b"".join(array.tobytes() for array in (of_segment, scores, sizes))
    return {
        "classify and account": entered,
        "gather of residents": looked_up,
        "best_rows": chosen.tobytes() + worth.tobytes(),
    }


def _of_cutting_planes() -> dict[str, bytes]:
    rng = np.random.default_rng(3)
    c, B = rng.integers(-4, 5, 50) / 3, (rng.integers(-4, 5, 50) / 7).astype(np.float32)
    slope, count = slope_after(c, B, 0.5, 2.0)
    place, jump = np.empty(count), np.empty(count)
    breakpoints(c, B, 0.5, 2.0, place, jump)
    assert count > 1
    losses = move_along(c, B, 0.7)
    A, u, g = rng.standard_normal((8, 3)), np.eye(8)[0], np.empty(8)
    excess = minimise_on_simplex(A @ A.T, rng.uniform(0, 4, 8), 1e-9, 1000, u, g)
    return {
        "slope_after and breakpoints": np.array([slope, count, *place, *jump]).tobytes(),
        "move_along": c.tobytes() + np.array(losses).tobytes(),
        "minimise_on_simplex": u.tobytes() + g.tobytes() + np.array(excess).tobytes(),
    }


def _of_feature_maps() -> dict[str, bytes]:
    """Those of storage.features, but `project`, whose sums are made in another order when it is compiled."""
    X = random_problem(30, 12, 5)[0].sorted_indices()
    rows = X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data.astype(np.float32)
    found: dict[str, bytes] = {}
    for name, most in (("exact", 12), ("hashed", 16)):
        indptr, made, values = np.zeros(31, np.int64), np.zeros(900, np.int32), np.zeros(900, np.float32)
        if name == "exact":
            maps_kernel.make_pairs(*rows, most, True, indptr, made, values)
        else:
            maps_kernel.make_hashed_pairs(*rows, 12, False, np.full(most, -1, np.int32), indptr, made, values)
        found[f"pairs, {name}"] = indptr.tobytes() + made.tobytes() + values.tobytes()
    words = np.random.default_rng(4).integers(-(2**31), 2**31, 12, dtype=np.int32)
    marks = np.where(np.arange(12) % 5 == 0, 9.0, 1.0).astype(np.float32)
    indptr, made, values = np.zeros(7, np.int64), np.zeros(6 * 120, np.int32), np.zeros(6 * 120, np.float32)
    offsets, weights = np.array([0, 4, 20, 84]), np.sqrt(np.array([3.0, 2.0, 1.0]) / 6.0)
    end = maps_kernel.make_mers(
        np.arange(0, 13, 2), words, marks, 30, weights, offsets, indptr, made, values
    )  # fmt: skip
    found["weighted degree"] = indptr.tobytes() + made[:end].tobytes() + values[:end].tobytes()
    counted = np.zeros(12, np.int64), np.zeros(12), np.zeros(12), np.zeros(12, np.float32)
    maps_kernel.count_features(*rows[1:], *counted)
    found["statistics"] = b"".join(column.tobytes() for column in counted)
    picked = np.array([3, 3, 0, 29], np.int32)
    size = int(np.diff(X.indptr)[picked].sum())
    out = np.zeros(5, np.int64), np.zeros(size, np.int32), np.zeros(size, np.float32)
    maps_kernel.gather_rows(picked, *rows, *out)
    found["gather of features"] = b"".join(column.tobytes() for column in out)
    return found
