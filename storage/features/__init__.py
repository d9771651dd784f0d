"""Feature maps, by the name a job gives: what a stored row becomes before it is trained on. Each is one module, and one
line here."""

from storage.features.bias import Bias
from storage.features.fourier import Fourier
from storage.features.idf import Idf
from storage.features.pairs import Pairs
from storage.features.rows import FeatureMap
from storage.features.scale import Scale
from storage.features.unit import Unit
from storage.features.weighted_degree import WeightedDegree

FEATURE_MAPS: dict[str, type[FeatureMap]] = {
    "bias": Bias,
    "scale": Scale,
    "idf": Idf,
    "unit": Unit,
    "pairs": Pairs,
    "fourier": Fourier,
    "weighted_degree": WeightedDegree,
}
