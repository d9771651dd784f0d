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
    may_end    False: a run with another setting is wanted whatever came out
    """

    setting: str
    spent: Spent
    w: np.ndarray
    may_end: bool = True
