"""Dual coordinate descent for support vector regression: a visit to one beta_i. See logistic_and_regression.py."""

from streamsvm.storage.machine.compiled import njit

# Problem     min over |beta_i| <= U of  1/2 |w|^2 + sum [D beta_i^2 / 2 - y_i beta_i + epsilon |beta_i|],
#             w = sum beta_i x_i
# Source      Ho and Lin, "Large-scale linear support vector regression" (JMLR 2012), algorithm 4
#
# One variable, with r = <w, x_i> - y_i and G = r + D beta_i: the objective is a parabola on either side of beta_i = 0,
# where its slope jumps from G - epsilon to G + epsilon.


@njit(cache=True, nogil=True)
def regression_gradient(beta: float, G: float, U: float, epsilon: float) -> float:
    """Return the projected gradient PG: a slope of the objective down which beta_i can go from beta; 0 if none."""
    if beta > 0.0 or (beta == 0.0 and G + epsilon < 0.0):
        PG = G + epsilon
        return max(PG, 0.0) if beta == U else PG
    if beta < 0.0 or G - epsilon > 0.0:
        PG = G - epsilon
        return min(PG, 0.0) if beta == -U else PG
    return 0.0


@njit(cache=True, nogil=True)
def regression_step(beta: float, G: float, H: float, U: float, epsilon: float) -> float:
    """Return the best beta_i while no other changes; H = Qii + D. Momentum may have moved `beta` out of its box."""
    if H == 0.0:  # a row without features has no part in w
        return U if G + epsilon < 0.0 else -U if G - epsilon > 0.0 else 0.0
    if G + epsilon < H * beta:
        new = beta - (G + epsilon) / H
    elif G - epsilon > H * beta:
        new = beta - (G - epsilon) / H
    else:
        new = 0.0
    return min(max(new, -U), U)


# regression_visit(beta, r, Q, U, D, epsilon): what a visit to beta_i = beta finds and does, r = <w, x_i> - y_i, and
# returns
#
#   PG     the projected gradient, see regression_gradient
#   rest   how far the row rests: at beta_i = 0 inside its tube, min(G + epsilon, epsilon - G);  at U, -(G + epsilon);
#          or at -U, G - epsilon.  -1 if it does not
#   term   the row's term of P - D:  C loss(r) + beta <w, x_i> - d(beta), at least 0
#   new    beta_i after the visit
#   gain   by how much the dual objective rose; less than 0 if the row had to come back into its box


@njit(cache=True, nogil=True)
def regression_visit(
    beta: float, r: float, Q: float, U: float, D: float, epsilon: float
) -> tuple[float, float, float, float, float]:
    inside, G = min(max(beta, -U), U), r + D * beta
    PG = regression_gradient(inside, G, U, epsilon)
    rest = -1.0
    if PG == 0.0:
        if inside == 0.0:
            rest = min(G + epsilon, epsilon - G)
        elif abs(inside) == U:
            rest = -(G + epsilon) if inside > 0.0 else G - epsilon
    excess = max(0.0, abs(r) - epsilon)
    loss = excess * excess / (2.0 * D) if D > 0.0 else U * excess
    term = max(0.0, loss + inside * r + epsilon * abs(inside) + D * inside * inside / 2.0)
    if abs(PG) <= 1e-12 and inside == beta:
        return PG, rest, term, beta, 0.0
    new, H = regression_step(beta, G, Q + D, U, epsilon), Q + D
    d = new - beta
    return PG, rest, term, new, -(d * (G + d * H / 2.0) + epsilon * (abs(new) - abs(beta)))


# regression_taken(was, new, target, D, epsilon): the change of beta_i - d(beta_i).


@njit(cache=True, nogil=True)
def regression_taken(was: float, new: float, target: float, D: float, epsilon: float) -> float:
    return (new - was) * (1.0 - target) + epsilon * (abs(new) - abs(was)) + D * (new * new - was * was) / 2.0
