"""The bounds of the dual variables and their curvature, by the signs of rows."""

from typing import NamedTuple


class Box(NamedTuple):
    """0 <= alpha_i <= U and the curvature D, of the rows with y = +1 and of those with y = -1.

    Of rows with weights, |y| > 0, U is multiplied and D divided by them; of weight 0 both are 0.
    """

    U_positive: float
    D_positive: float
    U_negative: float
    D_negative: float
