"""Feature maps, by the names that jobs use: each transforms stored rows before training."""

import sys

from streamsvm.storage.features import expanding, weighing
from streamsvm.storage.features.expanding import Fourier, Pairs, WeightedDegree
from streamsvm.storage.features.rows import FeatureMap
from streamsvm.storage.features.weighing import Bias, Idf, Scale, Unit

FEATURE_MAPS: dict[str, type[FeatureMap]] = {
    "bias": Bias,
    "scale": Scale,
    "idf": Idf,
    "unit": Unit,
    "pairs": Pairs,
    "fourier": Fourier,
    "weighted_degree": WeightedDegree,
}

# Pickles of estimators that earlier versions made name modules of one map each.
sys.modules |= {f"{__name__}.{name}": weighing for name in ("bias", "idf", "scale")}
sys.modules |= {f"{__name__}.{name}": expanding for name in ("fourier", "pairs", "weighted_degree")}
