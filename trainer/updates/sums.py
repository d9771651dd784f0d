"""The sums over visits: a number each, or of several lanes an array (lanes,) each."""

from typing import NamedTuple

import numpy as np

from streamsvm.storage.rows.csr import Figure


class Sums(NamedTuple):
    """
    M_plus, M_minus   largest and smallest projected gradient met; -inf, inf where none was
    curvature, freed  changes of sum D_i alpha_i^2 / 2 and of the number of free rows, from what was before momentum
    gap               of the rows' terms of P - D, as they were met: at one w, the terms of all rows add up to it
    squares           of projected gradients where a step was made
    """

    M_plus: Figure
    M_minus: Figure
    curvature: Figure
    freed: Figure
    gap: Figure
    squares: Figure

    def plus(self, other: "Sums") -> "Sums":
        """Of both."""
        return Sums(
            np.maximum(self.M_plus, other.M_plus),
            np.minimum(self.M_minus, other.M_minus),
            *(one + another for one, another in zip(self[2:], other[2:], strict=True)),
        )


NONE = Sums(-np.inf, np.inf, 0.0, 0, 0.0, 0.0)
