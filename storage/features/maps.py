"""The maps of a job, one after the other: planned for the rows of a dataset, fitted to them, and kept with a model.

Those up to the first that expands are applied once, when rows are read; it and all after it at each visit of a row.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.storage.features import FEATURE_MAPS
from streamsvm.storage.features.listed import Listed
from streamsvm.storage.features.renumbered import Renumbered
from streamsvm.storage.features.rows import Apply, FeatureMap, Features, FeaturesError, Shape, not_counted
from streamsvm.storage.features.statistics import FeatureStatistics
from streamsvm.storage.rows.csr import INDPTR, Array

LISTED = "listed"
_KINDS: dict[str, type[FeatureMap]] = {**FEATURE_MAPS, "renumbered": Renumbered, LISTED: Listed}
_FILE = "features.npz"  # in a run directory

MOST_MADE = 1 << 24  # features of one row

Named = tuple[str, FeatureMap]


@dataclass(frozen=True)
class Fitted:
    """A map, the shape of the rows it is given, and what was fitted to them."""

    name: str
    map: FeatureMap
    shape: Shape
    arrays: Mapping[str, Array] = field(default_factory=dict)

    def check(self) -> None:
        """Raises FeaturesError if what was fitted is not what the map needs."""
        found = {
            name: len(array) for name, array in self.arrays.items() if array.ndim == 1 and np.isfinite(array).all()
        }
        if found != self.map.sizes(self.shape):
            raise FeaturesError("features_range", f"what {self.name} was fitted to is not there")
        self.map.check_fitted(self.shape, self.arrays)

    @property
    def made(self) -> Shape:
        """The shape of the rows it makes."""
        return self.map.shape(self.shape)


class FeatureMaps:
    """shape: of the rows that the first is given."""

    def __init__(self, shape: Shape, maps: Sequence[Fitted] = ()) -> None:
        self.shape = shape
        self.maps = tuple(maps)

    def __len__(self) -> int:
        return len(self.maps)

    @classmethod
    def planned(cls, shape: Shape, named: Sequence[Named]) -> "FeatureMaps":
        """Raises FeaturesError if rows of this shape cannot be mapped so."""
        maps: list[Fitted] = []
        given, is_counted = shape, True
        for name, each in named:
            if each.fits and not is_counted:
                raise not_counted(name)
            if each.of_strings != bool(given.strings):
                what = "strings of bases" if each.of_strings else "features"
                raise FeaturesError("features_order", f"{name} takes {what}, and is given other rows")
            each.check(given)
            maps.append(Fitted(name, each, given))
            given, is_counted = maps[-1].made, is_counted and each.keeps_count
        if given.strings:
            raise FeaturesError("features_missing", "rows are strings: they have no features", 'Ask for "features".')
        return cls(shape, maps)

    def fitted(self, statistics: FeatureStatistics | None) -> "FeatureMaps":
        """The same, fitted to the rows of a dataset. Raises FeaturesError."""
        maps = []
        for each in self.maps:
            arrays = each.map.fit(each.shape, statistics)
            maps.append(replace(each, arrays=arrays))
            statistics = each.map.after(statistics, arrays) if statistics is not None else None
        return FeatureMaps(self.shape, maps)

    def placed(self, place: Callable[[Array], Array]) -> "FeatureMaps":
        """The same for rows whose features are numbered anew; `place` takes an array (width,) there."""
        if any(each.map.needs_numbers for each in self.maps):
            numbers = place(np.arange(self.shape.width, dtype=np.float64))
            first = Fitted("renumbered", Renumbered(), self.shape, {"numbers": numbers.astype(np.int32)})
            return FeatureMaps(self.shape, (first, *self.maps))
        return FeatureMaps(self.shape, [_placed(each, place) for each in self.maps])

    def of_listed(self, n_features: int, base: int, features: Array) -> "FeatureMaps":
        """These maps for rows of `n_features` from `base` on, of which `features` (n,), ascending, are those here."""
        shape = Shape(n_features + base, base)
        return FeatureMaps(shape, (Fitted(LISTED, Listed(len(features)), shape, {"features": features}), *self.maps))

    @property
    def listed(self) -> Array | None:
        """The features (n,), ascending, that there are weights of, if all others are left out at first."""
        return self.maps[0].arrays["features"] if self.maps and self.maps[0].name == LISTED else None

    @property
    def width(self) -> int:
        """Features are made with numbers below."""
        return self.maps[-1].made.width if self.maps else self.shape.width

    @property
    def keeps_numbers(self) -> bool:
        """Whether the features that rows have stay what they are, whatever their values become."""
        return not any(each.map.expands for each in self.maps)

    @cached_property
    def early(self) -> "FeatureMaps":
        """Those that are applied when rows are read."""
        return FeatureMaps(self.shape, self.maps[: self._n_early])

    @cached_property
    def late(self) -> "FeatureMaps":
        """Those that are applied at each visit."""
        return FeatureMaps(self.early.made_shape, self.maps[self._n_early :])

    @property
    def made_shape(self) -> Shape:
        """Of the rows that come out."""
        return self.maps[-1].made if self.maps else self.shape

    @property
    def _n_early(self) -> int:
        return next((number for number, each in enumerate(self.maps) if each.map.expands), len(self.maps))

    def made(self, lengths: Array) -> Array:
        """Most values made of rows that have so many (n,) int64."""
        for each in self.maps:
            lengths = each.map.made(lengths)
        return lengths

    @property
    def own_bytes(self) -> int:
        """What they hold in a process."""
        return sum(each.map.own_bytes(each.shape) for each in self.maps)

    def check_row(self, longest: int) -> None:
        """Raises FeaturesError if too many features are made of a row that has so many."""
        made = int(self.made(np.array([longest], np.int64))[0])
        if made > MOST_MADE:
            raise FeaturesError(
                "features_range",
                f"a row of {longest} features becomes one of {made}, more than {MOST_MADE}",
                "Leave out pairs, or rows so long.",
            )

    def apply(self, rows: Features) -> Features:
        """The rows mapped, on any thread."""
        for apply in self.ready:
            rows = apply(rows)
        return rows

    @cached_property
    def ready(self) -> list[Apply]:
        """Each made ready to be applied."""
        return [each.map.ready(each.shape, each.arrays) for each in self.maps]

    # As a document and arrays, and back

    @property
    def document(self) -> dict[str, Any]:
        """All but the arrays."""
        maps = [{"name": each.name, "options": each.map.options} for each in self.maps]
        return {**vars(self.shape), "maps": maps}

    @property
    def arrays(self) -> dict[str, Array]:
        """By the place of their map and their name."""
        return {f"{place}_{name}": array for place, each in enumerate(self.maps) for name, array in each.arrays.items()}

    @classmethod
    def read(cls, document: Mapping[str, Any], arrays: Mapping[str, Array]) -> "FeatureMaps":
        """What `document` and `arrays` say. Raises FeaturesError, KeyError, TypeError for what they cannot say."""
        shape = Shape(*(int(document[name]) for name in ("width", "base", "strings")))
        found = cls.planned(
            shape, [(each["name"], _KINDS[each["name"]](**each["options"])) for each in document["maps"]]
        )
        maps = [
            replace(each, arrays={name.partition("_")[2]: array for name, array in arrays.items() if _of(name, place)})
            for place, each in enumerate(found.maps)
        ]
        for each in maps:
            each.check()
        return cls(shape, maps)


def listed_maps(n_features: int, base: int, features: Array) -> FeatureMaps:
    """Maps of a model that has no others, and weights of `features` (n,), ascending, alone."""
    return FeatureMaps(Shape(len(features))).of_listed(n_features, base, features)


def _of(name: str, place: int) -> bool:
    return name.partition("_")[0] == str(place)


def _placed(each: Fitted, place: Callable[[Array], Array]) -> Fitted:
    return replace(each, arrays=each.map.placed(each.arrays, place)) if each.arrays else each


def write_maps(run: Path, maps: FeatureMaps) -> dict[str, Any] | None:
    """Keep the arrays in a run directory; what `read_maps` has to be given. None: there are no maps."""
    if not len(maps):
        return None
    with (run / _FILE).open("wb") as file:
        np.savez(file, **maps.arrays)  # type: ignore[arg-type]
    return maps.document


def read_maps(run: Path, document: Mapping[str, Any] | None, width: int) -> FeatureMaps:
    """Those of a run; without a document none, for rows of so many features."""
    if document is None:
        return FeatureMaps(Shape(width))
    with np.load(run / _FILE) as arrays:
        return FeatureMaps.read(document, dict(arrays))


def packed(maps: FeatureMaps) -> bytes:
    """The arrays as a file of a model."""
    archive = io.BytesIO()
    np.savez(archive, **maps.arrays)  # type: ignore[arg-type]
    return archive.getvalue()


def unpacked(document: Mapping[str, Any], archive: bytes) -> FeatureMaps:
    """The reverse."""
    with np.load(io.BytesIO(archive)) as arrays:
        return FeatureMaps.read(document, dict(arrays))


def features_of(indptr: Array, indices: Array, values: Array) -> Features:
    """Rows of any type of offsets."""
    return Features(indptr.astype(INDPTR, copy=False), indices, values)
