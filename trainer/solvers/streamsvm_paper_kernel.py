"""The trainer loop of the StreamSVM paper: picks rows, visits them, and lets new rows in between picks."""

from typing import NamedTuple

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array, add_row, dot
from streamsvm.storage.rows.segment import Columns
from streamsvm.trainer.kernels.coordinate import kind_of, projected_gradient
from streamsvm.trainer.kernels.order import next_random
from streamsvm.trainer.problem.tasks import KindTable


class Ways(NamedTuple):
    """How the rule for eps is read: number of rows that fit into the cache, beta, picks between resets, switches."""

    capacity: float
    beta: float
    n: float
    per_sweep: bool
    projected: bool


class Listing(NamedTuple):
    """The rows that may be picked, in any order, and where all rows are.

    ids    (n_rows,) int32: ids of the listed rows, at 0 .. count - 1; the count is rule[3], see `paper_visits`
    slot   (n_rows,) int32 by row_id: where in `ids` the row is; -1: it is not listed
    place  (n_rows,) int64 by row_id: where ScatteredRows has the row; -1: the reader's cache does not hold it
    """

    ids: Array
    slot: Array
    place: Array


class Arrivals(NamedTuple):
    """Rows that come in between picks.

    row_id   (m,) int32 ids of the rows; at: (m,) number of picks after which each row comes in, ascending
    victims  (m,) int32, to be filled: a random row leaves for each row that comes in while the cache is full
    done     (4,) int64: number of picks, arrivals and victims so far; state of the random choice of victims
    """

    row_id: Array
    at: Array
    victims: Array
    done: Array


# drawn(seed > 0, n, listing, arrivals, places (k,) int64): fills `places` with those of k random picks, each among the
# n listed rows and the arrivals that are due before it.


@njit(cache=True)
def drawn(seed: int, n: int, listing: Listing, arrivals: Arrivals, places: Array) -> None:
    coming, at, _, _ = arrivals
    state, m = seed, 0
    for k in range(places.shape[0]):
        while m < coming.shape[0] and at[m] <= k:
            m += 1
        state = next_random(state)
        r = (state * (n + m)) >> 32
        places[k] = listing.place[listing.ids[r] if r < n else coming[r - n]]


# leave, enter(i, listing, rule): unlist a listed row, list a row unless it is listed. Both change listing and rule.


@njit(cache=True)
def leave(i: int, listing: Listing, rule: Array) -> None:
    rule[3] -= 1.0
    ids, slot = listing.ids, listing.slot
    last = ids[int(rule[3])]
    ids[slot[i]], slot[last] = last, slot[i]
    slot[i] = -1


@njit(cache=True)
def enter(i: int, listing: Listing, rule: Array) -> None:
    if listing.slot[i] < 0:
        listing.ids[int(rule[3])], listing.slot[i] = i, int(rule[3])
        rule[3] += 1.0


# Problem     as in kernels/hinge.py
# Source      Matsushima, Vishwanathan, Smola (KDD 2012), Algorithm 2
#
# For each pick i (with replacement); a row that has left or is not in yet is no pick, and does not count:
#
#   arrivals that are due come in, see `let_in`
#   eps <- eps_new after n picks; eps <- beta eps while more than 0.9 of the cache is occupied
#   G; give i up if alpha_i = 0 and G > eps, or alpha_i = U_i and G < -eps
#   otherwise eps_new <- max(eps_new, |G|) and one coordinate step
#
# That is as printed. Most likely the authors meant (`per_sweep`, `projected`): beta applies once in as many picks as
# there are rows in the cache, and eps_new is the largest |PG|. If n is inf, the caller sets eps, and eps_new to 0.
#
# Inputs      order (k,) int32: picked positions; rows: a segment's columns; table of one task; ways
# In place    alpha, w; listing: the rows in the cache; rule (5,) = eps, eps_new, picks since eps was set, rows in the
#             cache, picks since beta applied; arrivals
# Returns     picks, largest and smallest PG of the steps made (M+, M-), the changes of sum D_i alpha_i^2 / 2
#             and of the number of free rows


@njit(cache=True)
def paper_visits(
    order: Array,
    rows: Columns,
    table: KindTable,
    ways: Ways,
    arrivals: Arrivals,
    listing: Listing,
    alpha: Array,
    w: Array,
    rule: Array,
) -> tuple[int, float, float, float, int]:
    row_id, Qii, indptr, indices, values = rows.row_id, rows.Qii, rows.indptr, rows.indices, rows.values
    capacity, beta, n, per_sweep, projected = ways
    picks, M_plus, M_minus, curvature, freed = 0, -float("inf"), float("inf"), 0.0, 0
    for k in range(order.shape[0]):
        position = order[k]
        i = row_id[position]
        let_in(arrivals, capacity, listing, rule)
        if listing.slot[i] < 0:
            continue
        picks += 1
        if rule[2] >= n:
            rule[0] = rule[1]
            rule[2] = 0.0
        rule[2] += 1.0
        rule[4] += 1.0
        if rule[3] > 0.9 * capacity and (not per_sweep or rule[4] >= rule[3]):
            rule[0] *= beta
            rule[4] = 0.0

        start, end = indptr[position], indptr[position + 1]
        line = kind_of(position, rows, table.n_folds)
        sign, U, D = table.sign[line, 0], table.U[line, 0], table.D[line, 0]
        a = alpha[i]
        G = sign * dot(indices, values, start, end, w) - 1.0 + D * a
        PG = projected_gradient(a, G, U)
        if (a == 0.0 and rule[0] < G) or (a == U and -rule[0] > G):
            leave(i, listing, rule)
            continue

        rule[1] = max(rule[1], abs(PG) if projected else abs(G))
        M_plus, M_minus = max(M_plus, PG), min(M_minus, PG)
        if abs(PG) > 1e-12:
            H = Qii[position] + D
            # A row without features has no part in w: the bound is its optimum.
            new = min(max(a - G / H, 0.0), U) if H > 0.0 else U
            add_row(start, end, indices, values, (new - a) * sign, w)
            alpha[i] = new
            curvature += D * (new * new - a * a) / 2.0
            freed += int(0.0 < new < U) - int(0.0 < a < U)
    return picks, M_plus, M_minus, curvature, freed


# let_in(...): the arrivals that are due come in; the pick that follows counts as done. Changes arrivals, listing, rule.


@njit(cache=True)
def let_in(arrivals: Arrivals, capacity: float, listing: Listing, rule: Array) -> None:
    coming, at, victims, done = arrivals
    while done[1] < coming.shape[0] and at[done[1]] <= done[0]:
        if rule[3] >= capacity and rule[3] > 0.0:
            done[3] = next_random(done[3])
            victims[done[2]] = listing.ids[(done[3] * int(rule[3])) >> 32]
            leave(victims[done[2]], listing, rule)
            done[2] += 1
        enter(coming[done[1]], listing, rule)
        done[1] += 1
    done[0] += 1
