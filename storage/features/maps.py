"""The sequence of a job's feature maps: planned for a shape of rows, fitted to a dataset, stored with the model.

The maps before the first that expands rows are applied once, when the reader reads rows; that map and all after it are
applied at each visit of a row.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.storage.features import FEATURE_MAPS
from streamsvm.storage.features.bias import LeadingBias
from streamsvm.storage.features.rows import Apply, FeatureMap, Features, FeaturesError, Shape, not_counted
from streamsvm.storage.features.statistics import FeatureStatistics
from streamsvm.storage.files.arrays import load_arrays
from streamsvm.storage.rows.csr import INDEX, INDPTR, Array


@dataclass(frozen=True)
class Renumbered(FeatureMap):
    """Gives the features of a dataset's blocks the numbers of the input: feature f becomes `numbers[f]`, (width,)."""

    keeps_statistics = True

    def sizes(self, shape: Shape) -> Mapping[str, int]:
        return {"numbers": shape.width}

    def ready(self, _shape: Shape, arrays: Mapping[str, Array]) -> Apply:
        numbers = arrays["numbers"].astype(INDEX)
        return lambda rows: rows._replace(indices=numbers[rows.indices])


@dataclass(frozen=True)
class Listed(FeatureMap):
    """Gives each feature of the ascending list `features` (count,) its position in the list; drops all other features.

    It is the map of a model that has weights for these features only, since feature numbers are far apart.
    """

    count: int

    keeps_statistics = True

    def width(self, _shape: Shape) -> int:
        return self.count

    def shape(self, before: Shape) -> Shape:
        return Shape(self.count)

    def sizes(self, _shape: Shape) -> Mapping[str, int]:
        return {"features": self.count}

    def check_fitted(self, shape: Shape, arrays: Mapping[str, Array]) -> None:
        features = arrays["features"]
        is_ascending = (features % 1 == 0).all() and (features[1:] > features[:-1]).all()
        if not is_ascending or (len(features) and not (features[0] >= 0 and features[-1] < shape.width)):
            raise FeaturesError("features_range", "the list of a model's features is not ascending, or out of range")

    def own_bytes(self, _shape: Shape) -> int:
        return INDEX.itemsize * self.count

    def ready(self, _shape: Shape, arrays: Mapping[str, Array]) -> Apply:
        features = arrays["features"].astype(INDEX)

        def apply(rows: Features) -> Features:
            places = np.searchsorted(features, rows.indices)
            is_listed = np.zeros(len(places), bool)
            inside = places < len(features)
            is_listed[inside] = features[places[inside]] == rows.indices[inside]
            if is_listed.all():
                return rows._replace(indices=places.astype(INDEX))
            indptr = np.concatenate(([0], np.cumsum(is_listed)))[rows.indptr]
            return Features(indptr, places[is_listed].astype(INDEX), rows.values[is_listed])

        return apply


LISTED, LEADING_BIAS = "listed", "leading_bias"
_KINDS = {**FEATURE_MAPS, "renumbered": Renumbered, LISTED: Listed, LEADING_BIAS: LeadingBias}
_FILE = "features.npz"  # in a run directory
MOST_MADE = 1 << 24  # most features that maps may make of one row

Named = tuple[str, FeatureMap]


@dataclass(frozen=True)
class Fitted:
    """A map, the shape of the rows that it takes, and the arrays that `fit` returned (none before it is fitted)."""

    name: str
    map: FeatureMap
    shape: Shape
    arrays: Mapping[str, Array] = field(default_factory=dict)

    def check(self) -> None:
        """Raises FeaturesError if the arrays are not those that the map needs."""
        sizes = {
            name: len(array) for name, array in self.arrays.items() if array.ndim == 1 and np.isfinite(array).all()
        }
        if sizes != self.map.sizes(self.shape):
            raise FeaturesError("features_range", f"the fitted arrays of {self.name} are missing or damaged")
        self.map.check_fitted(self.shape, self.arrays)

    @property
    def output_shape(self) -> Shape:
        """The shape of the rows that it makes."""
        return self.map.shape(self.shape)


class FeatureMaps:
    """Maps that are applied one after the other. shape: of the rows that the first map takes."""

    def __init__(self, shape: Shape, maps: Sequence[Fitted] = ()) -> None:
        self.shape = shape
        self.maps = tuple(maps)

    def __len__(self) -> int:
        return len(self.maps)

    @classmethod
    def planned(cls, shape: Shape, named: Sequence[Named]) -> "FeatureMaps":
        """Maps for rows of this shape, not yet fitted. Raises FeaturesError if they cannot be applied in this order."""
        maps: list[Fitted] = []
        taken, has_statistics = shape, True
        for name, each in named:
            if each.needs_statistics and not has_statistics:
                raise not_counted(name)
            if each.of_strings != bool(taken.strings):
                what, other = ("strings of bases", "features") if each.of_strings else ("features", "strings of bases")
                raise FeaturesError("features_order", f"{name} takes {what}, but the rows before it are {other}")
            each.check(taken)
            maps.append(Fitted(name, each, taken))
            taken, has_statistics = maps[-1].output_shape, has_statistics and each.keeps_statistics
        if taken.strings:
            hint = 'Ask for "features": ["weighted_degree"].'
            raise FeaturesError("features_missing", "rows are strings: they have no features", hint)
        return cls(shape, maps)

    def fitted(self, statistics: FeatureStatistics | None) -> "FeatureMaps":
        """These maps, fitted to a dataset with these statistics. Raises FeaturesError if a map lacks them."""
        maps = []
        for each in self.maps:
            arrays = each.map.fit(each.shape, statistics)
            maps.append(replace(each, arrays=arrays))
            statistics = each.map.after(statistics, arrays) if statistics is not None else None
        return FeatureMaps(self.shape, maps)

    def renumbered(self, place: Callable[[Array], Array]) -> "FeatureMaps":
        """These maps for the blocks of a dataset that renumbers its features.

        place   takes an array (width,) by the input's feature numbers, and returns it by those of the blocks
        """
        if any(each.map.needs_numbers for each in self.maps):
            numbers = place(np.arange(self.shape.width, dtype=np.float64))
            first = Fitted("renumbered", Renumbered(), self.shape, {"numbers": numbers.astype(np.int32)})
            return FeatureMaps(self.shape, (first, *self.maps))
        return FeatureMaps(self.shape, [_renumbered(each, place) for each in self.maps])

    def of_listed(self, n_features: int, base: int, features: Array) -> "FeatureMaps":
        """These maps after a `Listed` map, which drops all features but `features` (n,), ascending.

        The rows then have `n_features` features, numbered from `base` on.
        """
        shape = Shape(n_features + base, base)
        return FeatureMaps(shape, (Fitted(LISTED, Listed(len(features)), shape, {"features": features}), *self.maps))

    @property
    def listed(self) -> Array | None:
        """The features (n,), ascending, that the first map keeps, if it is a `Listed` map; else None."""
        return self.maps[0].arrays["features"] if self.maps and self.maps[0].name == LISTED else None

    @property
    def width(self) -> int:
        """The features of mapped rows are numbered below it."""
        return self.output_shape.width

    @property
    def keeps_numbers(self) -> bool:
        """Whether mapped rows have the same feature numbers as the rows before; values may differ."""
        return not any(each.map.expands for each in self.maps)

    @cached_property
    def early(self) -> "FeatureMaps":
        """The maps that are applied when rows are read."""
        return FeatureMaps(self.shape, self.maps[: self._n_early])

    @cached_property
    def late(self) -> "FeatureMaps":
        """The maps that are applied at each visit."""
        return FeatureMaps(self.early.output_shape, self.maps[self._n_early :])

    @property
    def output_shape(self) -> Shape:
        """The shape of mapped rows."""
        return self.maps[-1].output_shape if self.maps else self.shape

    @property
    def _n_early(self) -> int:
        return next((number for number, each in enumerate(self.maps) if each.map.expands), len(self.maps))

    def most_values(self, lengths: Array) -> Array:
        """Upper bounds (n,) of the number of values in mapped rows, for rows with `lengths` (n,) int64 values."""
        for each in self.maps:
            lengths = each.map.most_values(lengths)
        return lengths

    @property
    def own_bytes(self) -> int:
        """Bytes that the maps hold in each process."""
        return sum(each.map.own_bytes(each.shape) for each in self.maps)

    def check_row(self, longest: int) -> None:
        """Raises FeaturesError if the maps make too many features of a row of `longest` features."""
        made = int(self.most_values(np.array([longest], np.int64))[0])
        if made > MOST_MADE:
            raise FeaturesError(
                "features_range",
                f"the maps make {made} features of a row of {longest}, more than {MOST_MADE}",
                "Leave out pairs, or leave out rows this long.",
            )

    def apply(self, rows: Features) -> Features:
        """Map the rows; any thread may call it."""
        for apply in self.ready:
            rows = apply(rows)
        return rows

    @cached_property
    def ready(self) -> list[Apply]:
        """The functions that apply the maps, in order."""
        return [each.map.ready(each.shape, each.arrays) for each in self.maps]

    @property
    def document(self) -> dict[str, Any]:
        """Everything but the arrays, as JSON: `read` takes it back."""
        maps = [{"name": each.name, "options": each.map.options} for each in self.maps]
        return {**vars(self.shape), "maps": maps}

    @property
    def arrays(self) -> dict[str, Array]:
        """All arrays, named "<position of the map>_<name>"."""
        return {f"{place}_{name}": array for place, each in enumerate(self.maps) for name, array in each.arrays.items()}

    @classmethod
    def read(cls, document: Mapping[str, Any], arrays: Mapping[str, Array]) -> "FeatureMaps":
        """The maps with this `document` and `arrays`. Raises FeaturesError, KeyError or TypeError if they are wrong."""
        shape = Shape(*(int(document[name]) for name in ("width", "base", "strings")))
        unfitted = cls.planned(
            shape, [(each["name"], _KINDS[each["name"]](**each["options"])) for each in document["maps"]]
        )
        maps = [
            replace(each, arrays={name.partition("_")[2]: array for name, array in arrays.items() if _of(name, place)})
            for place, each in enumerate(unfitted.maps)
        ]
        for each in maps:
            each.check()
        return cls(shape, maps)


def listed_maps(n_features: int, base: int, features: Array) -> FeatureMaps:
    """The maps of a model without further maps that has weights for `features` (n,), ascending, only."""
    return FeatureMaps(Shape(len(features))).of_listed(n_features, base, features)


def _of(name: str, place: int) -> bool:
    """Whether the array `name` belongs to the map at this position."""
    return name.partition("_")[0] == str(place)


def _renumbered(each: Fitted, place: Callable[[Array], Array]) -> Fitted:
    return replace(each, arrays=each.map.renumbered(each.arrays, place)) if each.arrays else each


def write_maps(run: Path, maps: FeatureMaps) -> dict[str, Any] | None:
    """Write the arrays into a run directory; returns the document for `read_maps`, or None if there are no maps."""
    if not len(maps):
        return None
    with (run / _FILE).open("wb") as file:
        np.savez(file, **maps.arrays)  # type: ignore[arg-type]
    return maps.document


def read_maps(run: Path, document: Mapping[str, Any] | None, width: int) -> FeatureMaps:
    """Read the maps of a run directory; for the document None, an empty sequence for rows of `width`."""
    if document is None:
        return FeatureMaps(Shape(width))
    return FeatureMaps.read(document, load_arrays(run / _FILE))


def packed(maps: FeatureMaps) -> bytes:
    """The arrays as the bytes of a model's file."""
    archive = io.BytesIO()
    np.savez(archive, **maps.arrays)  # type: ignore[arg-type]
    return archive.getvalue()


def unpacked(document: Mapping[str, Any], archive: bytes) -> FeatureMaps:
    """The maps with this document and the arrays of `packed`."""
    return FeatureMaps.read(document, load_arrays(io.BytesIO(archive)))


def features_of(indptr: Array, indices: Array, values: Array) -> Features:
    """Features from rows whose `indptr` has any integer dtype."""
    return Features(indptr.astype(INDPTR, copy=False), indices, values)
