"""A convex quadratic programme on the simplex, by sequential minimal optimisation."""

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

# Problem     min over u >= 0, sum u = 1 of  1/2 u'Hu - b'u
# Source      Franc, Sonnenburg (ICML 2008); Fan, Chen, Lin (JMLR 2005) for the choice of pairs by their gain
#
# With g = Hu - b, weight moves from a variable v with u_v > 0 to q, the one of least g. To move t of it gains
#
#   t (g_v - g_q) - t^2 (H_qq + H_vv - 2 H_qv) / 2,    t = min(u_v, (g_v - g_q) / (H_qq + H_vv - 2 H_qv)),
#
# and v is the variable that gains most. Ends when u'g - g_q, by which the objective exceeds the optimum at most, is
# `tolerance` or less, when no pair gains anything that shows in float64, or after `most_steps` steps.
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
