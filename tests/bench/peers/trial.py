"""What a peer tells of one run."""

from dataclasses import dataclass

import numpy as np

from tests.bench.usage import Spent


@dataclass(frozen=True)
class Trial:
    """
    setting    of this run, or how far it has come
    spent      since training began
    w          (n_features,) the weights then
    """

    setting: str
    spent: Spent
    w: np.ndarray
