"""The feature maps by the names that jobs use. A feature map turns a stored row into the row that is trained on."""

from streamsvm.storage.features.bias import Bias
from streamsvm.storage.features.fourier import Fourier
from streamsvm.storage.features.idf import Idf
from streamsvm.storage.features.pairs import Pairs
from streamsvm.storage.features.rows import FeatureMap
from streamsvm.storage.features.scale import Scale, Unit
from streamsvm.storage.features.weighted_degree import WeightedDegree

FEATURE_MAPS: dict[str, type[FeatureMap]] = {
    "bias": Bias,
    "scale": Scale,
    "idf": Idf,
    "unit": Unit,
    "pairs": Pairs,
    "fourier": Fourier,
    "weighted_degree": WeightedDegree,
}
