"""The feature maps that a job asks for: checks them, plans them for a dataset, and fits them to the dataset."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np
from pydantic import ValidationError

from streamsvm.reader.parsers.fasta import is_of_strings
from streamsvm.service.errors import ServiceError, meant, refusing
from streamsvm.service.jobs.fields.descriptions import form_of
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.features import FEATURE_MAPS
from streamsvm.storage.features.maps import FeatureMaps, Named
from streamsvm.storage.features.rows import FeaturesError, FeatureStatistics, Shape, read_statistics, write_statistics
from streamsvm.storage.features.weighing import Bias
from streamsvm.storage.options import options_of

# C times the mean squared norm of the rows; a coordinate step has the length 1 / Qii, and alpha ranges over C.
_LARGE = 1e4
Asked = Sequence[str | dict[str, dict[str, Any]]]

_FORMS = {name: form_of(name, options_of(kind)) for name, kind in FEATURE_MAPS.items()}


def named_maps(asked: Asked, bias: float | None = None) -> list[Named]:
    """Return (name, map) of each map asked for, then of the constant feature. Raises ServiceError features_range."""
    found = [_named(each) for each in asked]
    return found if bias is None else [*found, ("bias", Bias(bias))]


def _named(each: str | dict[str, dict[str, Any]]) -> Named:
    name, options = (each, {}) if isinstance(each, str) else next(iter(each.items()), ("", {}))
    if name not in FEATURE_MAPS or (isinstance(each, dict) and len(each) != 1):
        raise ServiceError(
            "features_range",
            "features are a list of names, or of objects of one name with its options",
            f"{meant(name, FEATURE_MAPS)}Known maps: {', '.join(FEATURE_MAPS)}.",
        )
    try:
        checked = _FORMS[name].model_validate(options)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        known = ", ".join(_FORMS[name].model_fields) or "none"
        raise ServiceError("features_range", f"{name}: {first['msg']}", f"Its options: {known}.") from None
    return name, FEATURE_MAPS[name](**checked.model_dump())


def planned_maps(spec: Any, manifest: Manifest) -> FeatureMaps:
    """Plan a job's maps for the dataset. Raises ServiceError features_order, features_range, features_missing,
    no_statistics."""
    with refusing(FeaturesError):
        FeatureMaps.planned(_shape(manifest), named_maps(spec.features))  # strings need a map; a bias is none
        maps = FeatureMaps.planned(_shape(manifest), named_maps(spec.features, spec.bias))
        maps.check_row(manifest.longest_row)
    return maps


def asked_maps(spec: Any, dataset: Dataset) -> FeatureMaps | None:
    """Return the maps that a job's models carry, fitted to the dataset, without the constant feature; None: no maps.

    If the dataset numbers only the features that occur in it, the first of the maps leaves out all other features.
    """
    manifest = dataset.manifest
    if not spec.features and not manifest.own_width:
        return None
    with refusing(FeaturesError):
        planned = FeatureMaps.planned(_shape(manifest), named_maps(spec.features))
        fitted = planned.fitted(_statistics(planned, dataset))
    if not manifest.own_width:
        return fitted
    return fitted.of_listed(manifest.n_features, manifest.index_base, np.sort(dataset.numbers))


def fitted_maps(planned: FeatureMaps, dataset: Dataset) -> FeatureMaps:
    """Return all maps of a job, fitted to the dataset, for rows with the feature numbers of the dataset's blocks."""
    with refusing(FeaturesError):
        fitted = planned.fitted(_statistics(planned, dataset))
    return fitted.renumbered(dataset.in_own_order) if dataset.has_own_order else fitted


def extra_values(spec: Any) -> int:
    """Return the number of values that maps add to each row in the cache."""
    maps = (each for _, each in named_maps(spec.features, spec.bias))
    early = takewhile(lambda each: not each.expands, maps)
    return sum(int(each.most_values(np.zeros(1, np.int64))[0]) for each in early)


def mean_Qii(spec: Any, manifest: Manifest) -> float:
    """Return the mean squared norm of the mapped rows, as far as maps that are not fitted can tell."""
    mean = manifest.Qii_spread[1] / manifest.n_rows
    for _, each in named_maps(spec.features, spec.bias):
        mean = each.mean_square(mean)
    return mean


def scaling_note(spec: Any, manifest: Manifest) -> str | None:
    """Return a message for a person whose job did not converge if features are on too large a scale; else None."""
    mean = mean_Qii(spec, manifest)
    if spec.Cs[-1] * mean <= _LARGE:
        return None
    return (
        f'rows have squared norms of {mean:.2g} on average, which makes training slow: scale the features ("features": '
        '["scale"]), or choose a smaller C'
    )


def _shape(manifest: Manifest) -> Shape:
    strings = manifest.input["length"] if manifest.input and is_of_strings(manifest.input) else 0
    # A dataset that leaves out the features that do not occur numbers the others from 0.
    return Shape(manifest.width, 0 if manifest.own_width else manifest.index_base, strings)


def _statistics(maps: FeatureMaps, dataset: Dataset) -> FeatureStatistics | None:
    """Return statistics of the features, None if no map needs them; count anew if rows changed since the last count."""
    if not any(each.map.needs_statistics for each in maps.maps):
        return None
    found = read_statistics(dataset.directory)
    if found is None or found.n_rows != dataset.manifest.n_rows:
        found = _counted(dataset)
        if found is not None:
            write_statistics(dataset.directory, found)
    return found


def _counted(dataset: Dataset) -> FeatureStatistics | None:
    found = FeatureStatistics.none()
    for location in dataset.all_pieces():
        rows = dataset.piece(location).rows
        if not found.add(rows.indptr, dataset.columns[rows.indices], rows.values):
            return None
    return found
