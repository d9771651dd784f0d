"""Dual coordinate descent for the multiclass machine of Crammer and Singer: a visit moves all classes of a row."""

from typing import NamedTuple

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.intrinsics_kernel import prefetch
from streamsvm.storage.rows.csr import LARGE_W, Array, feature
from streamsvm.storage.rows.segment import Columns
from streamsvm.trainer.kernels.coordinate import ROWS_AHEAD, kind_of, prefetch_row, weight_of
from streamsvm.trainer.kernels.hinge import Dual, VisitNotes, Weights
from streamsvm.trainer.kernels.threads import acquire, release
from streamsvm.trainer.problem.tasks import KindTable

# Problem     min 1/2 sum_m |w_m|^2 + sum_i sum_m e_im alpha_im,  w_m = sum_i alpha_im x_i,  over
#             alpha_im <= C_im,  sum_m alpha_im = 0,  where C_im is C_i for the row's own class and 0 for others,
#             and e_im is 0 for its own class and 1 for others
#             It is minus the dual of  min 1/2 sum_m |w_m|^2 + sum_i C_i max_m (e_im + <w_m, x_i> - <w_own, x_i>)
# Source      Crammer, Singer (JMLR 2001); Keerthi, Sundararajan, Chang, Hsieh, Lin, "A sequential dual method for
#             large scale multi-class linear SVMs" (KDD 2008), and LIBLINEAR's -s 4
#
# One row, with A = Qii, G_m = <w_m, x_i> + e_im the gradient, and r_m = C_im - alpha_im >= 0 the room of a class, which
# sum to C_i:
#
#   violation = max_m G_m - min over {m: r_m > 0} of G_m
#   r <- the nearest to r + G / A of those with r >= 0, sum r = C_i:  r_m = max(0, (G_m + A r_m) / A - tau)
#
# At the optimum only classes of the largest G have room. A row with one such class rests: alpha_i stays as it is until
# another class has a larger G. Then alpha_i is 0, the margin kept; or it is C_i for its own class and -C_i for another,
# the worst, as at the upper bound of two classes. A row with more of them is free.

FEW = 4  # classes that changed are added one by one if they are fewer than one in FEW classes
SMALLEST_A = 1e-200  # stands for A = 0 of a row without features, which has no part in w: its step ends at a bound


@njit(cache=True, nogil=True, inline="always")
def prefetch_classes(w: Array, first: int, n_classes: int) -> None:
    """Prefetch the values of all classes from w[first] on, one line of the processor's cache at a time."""
    for place in range(first, first + n_classes, 8):
        prefetch(w, place)


@njit(cache=True, nogil=True)
def class_gradients(
    start: int, end: int, coming: int, coming_end: int, indices: Array, values: Array, w: Array, lanes: int, G: Array
) -> None:
    """Add <w_m, x> of the row at start:end to G_m, for all classes m; prefetch weights for coming:coming_end."""
    n_classes, even = G.shape[0], end - ((end - start) & 3)
    coming_end = coming_end if indices.shape[0] > 0 else coming
    for j in range(start, even, 4):
        ahead = coming + (j - start)
        for k in range(ahead, min(ahead + 4, coming_end)):
            prefetch_classes(w, int(indices[k]) * lanes, n_classes)
        # Views that begin where a feature's weights do compile to vector code.
        a, b = int(feature(indices, start, j)) * lanes, int(feature(indices, start, j + 1)) * lanes
        c, d = int(feature(indices, start, j + 2)) * lanes, int(feature(indices, start, j + 3)) * lanes
        of_a, of_b, of_c, of_d = w[a : a + n_classes], w[b : b + n_classes], w[c : c + n_classes], w[d : d + n_classes]
        x_a, x_b = np.float64(values[j]), np.float64(values[j + 1])
        x_c, x_d = np.float64(values[j + 2]), np.float64(values[j + 3])
        for m in range(n_classes):
            G[m] += (of_a[m] * x_a + of_b[m] * x_b) + (of_c[m] * x_c + of_d[m] * x_d)
    for j in range(even, end):
        a, x_a = int(feature(indices, start, j)) * lanes, np.float64(values[j])
        of_a = w[a : a + n_classes]
        for m in range(n_classes):
            G[m] += of_a[m] * x_a
    for k in range(coming + (even - start), coming_end):
        prefetch_classes(w, int(indices[k]) * lanes, n_classes)


@njit(cache=True, nogil=True)
def with_room(alpha: Array, bound: Array) -> int:
    """Return the number of classes with room: those whose alpha is below its bound."""
    count = 0
    for m in range(alpha.shape[0]):
        count += int(alpha[m] < bound[m])
    return count


class Standing(NamedTuple):
    """The figures of a row before its step.

    smallest, largest  smallest and largest G of classes with room
    other              largest G of classes without room
    top                largest G_m + A r_m
    gap                sum_m r_m (max G - G_m)
    classes            number of classes with room; is_inside: no alpha_m is beyond its bound
    """

    smallest: float
    largest: float
    other: float
    top: float
    gap: float
    classes: int
    is_inside: bool


@njit(cache=True, nogil=True)
def standing(A: float, alpha: Array, bound: Array, G: Array, target: Array) -> Standing:
    """Return a row's Standing; fill `target` (n_classes,) with G_m + A r_m. One loop, for speed, makes all figures."""
    infinity = float("inf")
    smallest, largest, other, top = infinity, -infinity, -infinity, -infinity
    rooms, weighted, classes, is_inside = 0.0, 0.0, 0, True
    for m in range(G.shape[0]):
        g, r = G[m], bound[m] - alpha[m]
        target[m] = g + A * r
        top = max(top, target[m])
        has_room = r > 0.0
        smallest = min(smallest, g if has_room else infinity)
        largest = max(largest, g if has_room else -infinity)
        other = max(other, -infinity if has_room else g)
        classes += int(has_room)
        is_inside = is_inside and r >= 0.0
        rooms += max(r, 0.0)
        weighted += max(r, 0.0) * g
    gap = max(0.0, rooms * max(largest, other) - weighted)
    return Standing(smallest, largest, other, top, gap, classes, is_inside)


# best_room(A, C, top, target (n_classes,) = G_m + A r_m, kept (n_classes,)): returns tau, and fills target_m with the
# best r_m + tau, or a number below tau where the best r_m is 0; `kept` is scratch memory. Michelot's algorithm (1986)
# for the projection on a simplex leaves out classes below the tau of the remaining ones, until there are none; at first
# it leaves out all that are below the largest by C or more.


@njit(cache=True, nogil=True)
def best_room(A: float, C: float, top: float, target: Array, kept: Array) -> float:
    tau, left, total = -C, 0, 0.0
    # Less the largest: nothing is lost to rounding where A C is small beside G.
    inverse = 1.0 / max(A, SMALLEST_A)
    for m in range(target.shape[0]):
        u = (target[m] - top) * inverse
        target[m] = u
        kept[left] = u
        total += u if u > tau else 0.0
        left += int(u > tau)
    before = left + 1
    while left < before:
        tau, before = (total - C) / left, left
        left, total = 0, 0.0
        for k in range(before):
            u = kept[k]
            kept[left] = u
            total += u if u > tau else 0.0
            left += int(u > tau)
    return tau


@njit(cache=True, nogil=True)
def add_classes(
    start: int, end: int, indices: Array, values: Array, step: Array, which: Array, w: Array, lanes: int
) -> None:
    """Add step_m x of the row at start:end to w_m for the classes `which`; step (n_classes,) is 0 for other classes."""
    n_classes, changed = step.shape[0], which.shape[0]
    if FEW * changed < n_classes:
        for j in range(start, end):
            first, x = int(feature(indices, start, j)) * lanes, np.float64(values[j])
            for k in range(changed):
                w[first + which[k]] += step[which[k]] * x
    else:
        for j in range(start, end):
            first, x = int(feature(indices, start, j)) * lanes, np.float64(values[j])
            of_feature = w[first : first + n_classes]
            for m in range(n_classes):
                of_feature[m] += step[m] * x


# Visits the rows at the positions `order` (k,) int32, one after the other. A row whose C_i is 0 is left out.
#
# Inputs      rows: a segment's columns; table: C_i is U of the row's kind times its weight; n_classes: only the first
#             n_classes lanes of w and alpha are read or written
# In place    dual.alpha, weights.w, both by lanes; notes: as kernels.hinge. score: minus the row's term of the duality
#             gap, sum_m r_m (max G - G_m), if it is free or violates, or by how much it rests; +inf if it is left out
# Returns     the largest violation met (0 for none), and 0: so that their difference is what LIBLINEAR's -e bounds; the
#             change of S = sum_i [sum_m alpha_im - alpha_i,own], so that D = sum alpha - S - 1/2 |w|^2, as in other
#             kernels; and the change of the number of free rows, both from what was `before`
#
# An alpha_i that momentum has moved sums to 0 still; beyond its bound it counts as at its bound, and the row's step is
# taken in any case.


@njit(cache=True, nogil=True)
def visit_crammer_singer(
    order: Array, rows: Columns, table: KindTable, n_classes: int, dual: Dual, weights: Weights, notes: VisitNotes
) -> tuple[float, float, float, int]:
    row_id, Qii, indptr, indices, values = rows.row_id, rows.Qii, rows.indptr, rows.indices, rows.values
    w, lock = weights
    lanes, count = table.U.shape[1], order.shape[0]
    G, target, kept, step = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    bound, which = np.zeros(n_classes), np.empty(n_classes, np.int64)
    violation, taken, freed = 0.0, 0.0, 0
    for k in range(count):
        if k + ROWS_AHEAD < count:
            coming = order[k + ROWS_AHEAD]
            prefetch_row(coming, rows, dual.alpha, lanes)
            prefetch_classes(dual.alpha, int(row_id[coming]) * lanes, n_classes)
        position = order[k]
        i, own, A = int(row_id[position]), int(rows.class_code[position]), Qii[position]
        C_i = table.U[kind_of(position, rows, table.n_folds), 0] * weight_of(position, rows)
        notes.gain[k] = 0.0
        if C_i == 0.0:
            notes.score[k] = float("inf")
            if notes.rest.shape[0] > 0:
                notes.rest[k] = float("inf")
            continue
        start, end = indptr[position], indptr[position + 1]
        alpha = dual.alpha[i * lanes : i * lanes + n_classes]
        before = dual.before[i * lanes : i * lanes + n_classes]
        bound[own] = C_i
        taken_before, was_free = before[own], with_room(before, bound) > 1

        next_start = next_end = 0
        if w.shape[0] > LARGE_W and k + 1 < count:
            next_start, next_end = indptr[order[k + 1]], indptr[order[k + 1] + 1]
        for m in range(n_classes):
            G[m] = 1.0
        G[own] = 0.0
        class_gradients(start, end, next_start, next_end, indices, values, w, lanes, G)

        smallest, largest, other, top, gap, classes, is_inside = standing(A, alpha, bound, G, target)
        most = max(largest, other)
        violation = max(violation, most - smallest)
        rests = classes == 1 and smallest == most
        notes.score[k] = most - other if rests else -gap
        if notes.rest.shape[0] > 0:
            notes.rest[k] = most - other if rests else -1.0

        if most - smallest > 1e-12 or not is_inside:
            tau = best_room(A, C_i, top, target, kept)
            changed, classes, risen = 0, 0, 0.0
            for m in range(n_classes):
                new = bound[m] - max(0.0, target[m] - tau)
                change = new - alpha[m]
                classes += int(new < bound[m])
                risen += change * ((most - G[m]) - A * change / 2.0)
                step[m] = change
                alpha[m] = new
                which[changed] = m
                changed += int(change != 0.0)
            notes.gain[k] = risen
            if lock.shape[0] > 0:
                acquire(lock)
            add_classes(start, end, indices, values, step, which[:changed], w, lanes)
            if lock.shape[0] > 0:
                release(lock)
        taken -= alpha[own] - taken_before
        freed += int(classes > 1) - int(was_free)
        bound[own] = 0.0
    return violation, 0.0, taken, freed
