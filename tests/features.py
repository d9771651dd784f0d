"""Feature maps for tests."""

from streamsvm.storage.features import FEATURE_MAPS
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.features.rows import Shape
from streamsvm.storage.features.weighing import Bias


def constant(width: int, value: float | None) -> FeatureMaps:
    """A constant feature behind `width` others, or no map at all."""
    return FeatureMaps.planned(Shape(width), [] if value is None else [("bias", Bias(value))])


def planned(shape: Shape, *named: str | tuple[str, dict]) -> FeatureMaps:
    """Maps by their names, some with options."""
    pairs = [(each, {}) if isinstance(each, str) else each for each in named]
    return FeatureMaps.planned(shape, [(name, FEATURE_MAPS[name](**options)) for name, options in pairs])
