"""The sequence of a job's feature maps: planned for a shape of rows, fitted to a dataset, stored with the model.

The first map that expands rows, and all maps after it, are applied at each visit of a row. The maps before it are
applied once, when the reader reads the row.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.storage.features import FEATURE_MAPS
from streamsvm.storage.features.rows import (
    Apply,
    FeatureMap,
    Features,
    FeaturesError,
    FeatureStatistics,
    Shape,
    not_counted,
)
from streamsvm.storage.features.weighing import LeadingBias
from streamsvm.storage.files.arrays import load_arrays
from streamsvm.storage.rows.csr import INDEX, INDPTR, Array


@dataclass(frozen=True)
class Renumbered(FeatureMap):
    """Gives features of a dataset's blocks their numbers in the input: feature f becomes `numbers[f]`, (width,)."""

    keeps_statistics = True

    def sizes(self, shape: Shape) -> Mapping[str, int]:
        return {"numbers": shape.width}

    def ready(self, _shape: Shape, arrays: Mapping[str, Array]) -> Apply:
        numbers = arrays["numbers"].astype(INDEX)
        return lambda rows: rows._replace(indices=numbers[rows.indices])


@dataclass(frozen=True)
class Listed(FeatureMap):
    """Renumbers each feature in the ascending list `features` (count,) by its position there; drops all other features.

    A model has this map if it has weights only for the listed features, because feature numbers are far apart.
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
MOST_MADE = 1 << 24  # most values that maps may make of one row

Named = tuple[str, FeatureMap]


@dataclass(frozen=True)
class Fitted:
    """A map, the shape of the rows that it takes, and the arrays that `fit` returned (no arrays before `fit`)."""

    name: str
    map: FeatureMap
    shape: Shape
    arrays: Mapping[str, Array] = field(default_factory=dict)

    def check(self) -> None:
        """Raise FeaturesError if the arrays have other names or sizes than the map needs, or wrong numbers."""
        sizes = {
            name: len(array) for name, array in self.arrays.items() if array.ndim == 1 and np.isfinite(array).all()
        }
        if sizes != self.map.sizes(self.shape):
            raise FeaturesError("features_range", f"the fitted arrays of {self.name} are missing or damaged")
        self.map.check_fitted(self.shape, self.arrays)

    @property
    def output_shape(self) -> Shape:
        """The shape of the rows that the map makes."""
        return self.map.shape(self.shape)


class FeatureMaps:
    """A sequence of feature maps, applied one after the other. shape: shape of the rows that the first map takes."""

    def __init__(self, shape: Shape, maps: Sequence[Fitted] = ()) -> None:
        self.shape = shape
        self.maps = tuple(maps)

    def __len__(self) -> int:
        return len(self.maps)

    @classmethod
    def planned(cls, shape: Shape, named: Sequence[Named]) -> "FeatureMaps":
        """Make maps, not yet fitted, for rows of this shape. Raises FeaturesError if they do not fit in this order."""
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
        """Return these maps, fitted to a dataset's statistics. Raises FeaturesError if a map lacks the statistics."""
        maps = []
        for each in self.maps:
            arrays = each.map.fit(each.shape, statistics)
            maps.append(replace(each, arrays=arrays))
            statistics = each.map.after(statistics, arrays) if statistics is not None else None
        return FeatureMaps(self.shape, maps)

    def renumbered(self, place: Callable[[Array], Array]) -> "FeatureMaps":
        """Return these maps for a dataset whose blocks number features otherwise than the input.

        place   a function that reorders an array (width,) from the input's feature numbers to those of the blocks
        """
        if any(each.map.needs_numbers for each in self.maps):
            numbers = place(np.arange(self.shape.width, dtype=np.float64))
            first = Fitted("renumbered", Renumbered(), self.shape, {"numbers": numbers.astype(np.int32)})
            return FeatureMaps(self.shape, (first, *self.maps))
        return FeatureMaps(
            self.shape,
            [
                replace(each, arrays=each.map.renumbered(each.arrays, place)) if each.arrays else each
                for each in self.maps
            ],
        )

    def of_listed(self, n_features: int, base: int, features: Array) -> "FeatureMaps":
        """Return these maps after a `Listed` map, which drops all features but `features` (n,), ascending.

        The maps returned take rows with `n_features` features, numbered from `base` on.
        """
        shape = Shape(n_features + base, base)
        return FeatureMaps(shape, (Fitted(LISTED, Listed(len(features)), shape, {"features": features}), *self.maps))

    @property
    def listed(self) -> Array | None:
        """The features (n,), ascending, that the first map keeps, if the first map is a `Listed` map; else None."""
        return self.maps[0].arrays["features"] if self.maps and self.maps[0].name == LISTED else None

    @property
    def width(self) -> int:
        """The exclusive upper bound of the feature numbers of mapped rows."""
        return self.output_shape.width

    @property
    def keeps_numbers(self) -> bool:
        """Whether mapping changes only values, not feature numbers: no map expands rows."""
        return not any(each.map.expands for each in self.maps)

    @cached_property
    def early(self) -> "FeatureMaps":
        """The maps that the reader applies once, when it reads rows: those before the first map that expands rows."""
        return FeatureMaps(self.shape, self.maps[: self._n_early])

    @cached_property
    def late(self) -> "FeatureMaps":
        """The maps that are applied at each visit of a row: the first map that expands rows, and those after it."""
        return FeatureMaps(self.early.output_shape, self.maps[self._n_early :])

    @property
    def output_shape(self) -> Shape:
        """The shape of mapped rows."""
        return self.maps[-1].output_shape if self.maps else self.shape

    @property
    def _n_early(self) -> int:
        return next((number for number, each in enumerate(self.maps) if each.map.expands), len(self.maps))

    def most_values(self, lengths: Array) -> Array:
        """Return upper bounds (n,) of the numbers of values in mapped rows; lengths (n,) int64: values in the rows."""
        for each in self.maps:
            lengths = each.map.most_values(lengths)
        return lengths

    @property
    def own_bytes(self) -> int:
        """Bytes of memory that the maps' tables take in each process."""
        return sum(each.map.own_bytes(each.shape) for each in self.maps)

    def check_row(self, longest: int) -> None:
        """Raise FeaturesError if the maps can make more than MOST_MADE values of a row with `longest` values."""
        made = int(self.most_values(np.array([longest], np.int64))[0])
        if made > MOST_MADE:
            raise FeaturesError(
                "features_range",
                f"the maps make {made} features of a row of {longest}, more than {MOST_MADE}",
                "Leave out pairs, or leave out rows this long.",
            )

    def apply(self, rows: Features) -> Features:
        """Return the mapped rows. Any thread may call it."""
        for apply in self.ready:
            rows = apply(rows)
        return rows

    @cached_property
    def ready(self) -> list[Apply]:
        """The functions that apply the maps to rows, one for each map, in order."""
        return [each.map.ready(each.shape, each.arrays) for each in self.maps]

    @property
    def document(self) -> dict[str, Any]:
        """The shape, and each map's name and options, as a JSON object; `read` makes the maps from it and `arrays`."""
        maps = [{"name": each.name, "options": each.map.options} for each in self.maps]
        return {**vars(self.shape), "maps": maps}

    @property
    def arrays(self) -> dict[str, Array]:
        """The fitted arrays of all maps, by "<position of the map>_<name of the array>"."""
        return {f"{place}_{name}": array for place, each in enumerate(self.maps) for name, array in each.arrays.items()}

    @classmethod
    def read(cls, document: Mapping[str, Any], arrays: Mapping[str, Array]) -> "FeatureMaps":
        """Make the maps from `document` and `arrays`. Raises FeaturesError, KeyError, TypeError if these are wrong."""
        shape = Shape(*(int(document[name]) for name in ("width", "base", "strings")))
        unfitted = cls.planned(
            shape, [(each["name"], _KINDS[each["name"]](**each["options"])) for each in document["maps"]]
        )
        named = [(*name.partition("_"), array) for name, array in arrays.items()]
        maps = [
            replace(each, arrays={name: array for of, _, name, array in named if of == str(place)})
            for place, each in enumerate(unfitted.maps)
        ]
        for each in maps:
            each.check()
        return cls(shape, maps)


def listed_maps(n_features: int, base: int, features: Array) -> FeatureMaps:
    """Return the maps, only a `Listed` map, of a model that has weights only for `features` (n,), ascending."""
    return FeatureMaps(Shape(len(features))).of_listed(n_features, base, features)


def write_maps(run: Path, maps: FeatureMaps) -> dict[str, Any] | None:
    """Write the maps' arrays into a run directory; return the document for `read_maps`, or None without maps."""
    if not len(maps):
        return None
    (run / _FILE).write_bytes(packed(maps))
    return maps.document


def read_maps(run: Path, document: Mapping[str, Any] | None, width: int) -> FeatureMaps:
    """Read the maps that `write_maps` wrote; without a document return no maps, for rows of `width` features."""
    if document is None:
        return FeatureMaps(Shape(width))
    return unpacked(document, (run / _FILE).read_bytes())


def packed(maps: FeatureMaps) -> bytes:
    """Return the maps' arrays as the bytes of a file of a model (npz)."""
    archive = io.BytesIO()
    np.savez(archive, **maps.arrays)  # type: ignore[arg-type]
    return archive.getvalue()


def unpacked(document: Mapping[str, Any], archive: bytes) -> FeatureMaps:
    """Make the maps from their document and the result of `packed`. Raises what `FeatureMaps.read` raises."""
    return FeatureMaps.read(document, load_arrays(io.BytesIO(archive)))


def features_of(indptr: Array, indices: Array, values: Array) -> Features:
    """Return rows in compressed sparse row form as `Features`; `indptr` may have any integer dtype."""
    return Features(indptr.astype(INDPTR, copy=False), indices, values)
