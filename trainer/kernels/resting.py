"""Rows that rest at a bound: a coordinate step would leave them where they are."""

from numba import njit

from storage.csr import Array

# Problem     as in kernels/dual.py
# Source      Chiang, Lee, Lin, "Parallel dual coordinate descent method for large-scale linear classification in
#             multi-core environments" (KDD 2016): gradients at one w in parallel, steps one after the other
#
#   G = y_i <w, x_i> - 1 + D_i alpha_i;  at rest if alpha_i = 0 and G >= 0, or alpha_i = U_i and G <= 0
#
# Inputs      row_id, y (n,) of a segment; dots (n,) = <w, x_i>; U and D of both signs; alpha (n_rows,) by row_id
# In place    resting (n,) bool; score (n,) float32 of those at rest: |G|, as kernels/dual.py has it


@njit(cache=True, nogil=True)
def mark_resting(
    row_id: Array,
    y: Array,
    dots: Array,
    U_positive: float,
    D_positive: float,
    U_negative: float,
    D_negative: float,
    alpha: Array,
    resting: Array,
    score: Array,
) -> None:
    for position in range(row_id.shape[0]):
        a = alpha[row_id[position]]
        sign = float(y[position])
        U, D = (U_positive, D_positive) if sign > 0.0 else (U_negative, D_negative)
        G = sign * dots[position] - 1.0 + D * a
        resting[position] = (a == 0.0 and G >= 0.0) or (a == U and G <= 0.0)
        if resting[position]:
            score[position] = abs(G)
