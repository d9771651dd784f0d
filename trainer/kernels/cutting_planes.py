"""Inner loops of cutting planes: the reduced problem, a quadratic programme on the simplex, and OCAS's line search."""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

# Problem     min over u >= 0, sum u = 1 of  1/2 u'Hu - b'u
# Source      Franc, Sonnenburg (ICML 2008); Fan, Chen, Lin (JMLR 2005) for the choice of pairs by their gain
#
# With g = Hu - b, weight moves from a variable v with u_v > 0 to q, the one of least g. To move t of it gains
#
#   t (g_v - g_q) - t^2 (H_qq + H_vv - 2 H_qv) / 2,    t = min(u_v, (g_v - g_q) / (H_qq + H_vv - 2 H_qv)),
#
# and v is the variable that gains most. Ends when u'g - g_q is `tolerance` or less (the objective is at most so far
# above the optimum), when no pair gains anything that shows in float64, or after `most_steps` steps.
#
# Inputs      H (m, m), b (m,)
# In place    u (m,): a starting point and the solution; g (m,) = Hu - b at the end
# Returns     u'g - min g, as it was last


@njit(cache=True)
def minimise_on_simplex(H: Array, b: Array, tolerance: float, most_steps: int, u: Array, g: Array) -> float:
    m = u.shape[0]
    for i in range(m):
        g[i] = -b[i]
    for j in range(m):
        if u[j] > 0.0:
            for i in range(m):
                g[i] += u[j] * H[j, i]
    excess = 0.0
    for _ in range(most_steps):
        q, mean = 0, 0.0
        for i in range(m):
            mean += u[i] * g[i]
            if g[i] < g[q]:
                q = i
        excess = mean - g[q]
        if excess <= tolerance:
            break
        v, most, moved = -1, 0.0, 0.0
        for i in range(m):
            fall = g[i] - g[q]
            if u[i] > 0.0 and fall > 0.0:
                curvature = H[q, q] + H[i, i] - 2.0 * H[q, i]
                t = u[i] if fall >= u[i] * curvature else fall / curvature
                gain = t * fall - t * t * curvature / 2.0
                if gain > most:
                    v, most, moved = i, gain, t
        if v < 0 or u[q] + moved == u[q]:
            break
        u[q] += moved
        u[v] = 0.0 if moved == u[v] else u[v] - moved
        for i in range(m):
            g[i] += moved * (H[q, i] - H[v, i])
    return excess


# Problem     min over k >= 0 of  f(k) = 1/2 |w + k d|^2 + sum_i max(0, c_i + k B_i),
#             c_i = C_i (1 - y_i <w, x_i>),  B_i = -C_i y_i <d, x_i>
# Source      Franc, Sonnenburg, "Optimized cutting plane algorithm for support vector machines" (ICML 2008)
#
# f' jumps by |B_i| at the breakpoint k_i = -c_i / B_i, and rises by |d|^2 per unit of k between breakpoints. A row has
# the slope B_i just after k if B_i < 0 and k_i > k, or B_i > 0 and k_i <= k; else 0.
#
# Inputs      c (n,) float64, B (n,) float32: any run of rows

# slope_after(c, B, k, limit): sum of the slopes B_i just after k, and how many breakpoints lie in (k, limit].


@njit(cache=True, nogil=True)
def slope_after(c: Array, B: Array, k: float, limit: float) -> tuple[float, int]:
    slope, ahead = 0.0, 0
    for i in range(c.shape[0]):
        b = np.float64(B[i])
        if b != 0.0:
            place = -c[i] / b
            if (b < 0.0) == (place > k):
                slope += b
            ahead += int(k < place <= limit)
    return slope, ahead


# breakpoints(c, B, k, limit, place (m,), jump (m,)): fills in k_i and |B_i| of the m breakpoints in (k, limit].


@njit(cache=True, nogil=True)
def breakpoints(c: Array, B: Array, k: float, limit: float, place: Array, jump: Array) -> None:
    found = 0
    for i in range(c.shape[0]):
        b = np.float64(B[i])
        if b != 0.0 and k < -c[i] / b <= limit:
            place[found] = -c[i] / b
            jump[found] = abs(b)
            found += 1


# move_along(c, B, k): c <- c + k B in place; returns the losses sum_i max(0, c_i) there.


@njit(cache=True, nogil=True)
def move_along(c: Array, B: Array, k: float) -> float:
    losses = 0.0
    for i in range(c.shape[0]):
        c[i] += k * np.float64(B[i])
        losses += max(0.0, c[i])
    return losses
