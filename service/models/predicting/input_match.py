"""Whether the rows of a dataset are made as those that a model was trained on, and which of its features are which.

Features of tables are matched by what they are: the column, or the word in it. All others have the same numbers.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.strings.strings import is_of_strings
from streamsvm.reader.parsers.tables.column_match import label_place, match_columns
from streamsvm.reader.parsers.tables.mixed_columns import MixedColumns
from streamsvm.service.errors import ServiceError
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.rows.csr import Array

# Where texts and strings were found is no matter.
_ELSEWHERE = {"string_column", "text_column", "label_column", "weight_column", "group_column"}
_ANYWHERE = {"text_column"}  # documents in a table
_MADE_ALIKE = ("missing", "categories", "n_features")

Input = dict[str, Any] | None
_Key = tuple[str, ...]


class Matched(NamedTuple):
    """numbers: (width,) of each of the dataset's features its number in the model; None: it is the same

    Words that the model does not have have numbers beyond all of those that either has. What is no feature, as those of
    columns that are left out, has numbers below 0.
    unknown_columns: of the dataset, which are left out
    """

    numbers: Array | None
    unknown_columns: list[str]


def match_dataset(model: Model, manifest: Manifest) -> Matched:
    """Match a model and a dataset. ServiceError input_mismatch, column_missing, header_differs, column_count."""
    ours, theirs = model.about.get("input"), manifest.input
    if theirs is None or "columns" not in theirs or (ours is not None and "columns" not in ours):
        check_input(ours, theirs)
        return Matched(None, [])
    if ours is None and theirs["categorical"]:
        raise _mismatch("categorical")
    try:
        if ours is None:
            match_columns({"n_features": model.n_features}, None, manifest.n_features, [])
            return Matched(_shifted(model, manifest), [])
        return _by_columns(model, ours, manifest, theirs)
    except InputError as error:
        raise ServiceError(error.code, error.message, "Evaluate on a dataset with the columns of training.") from None


def check_input(model: Input, dataset: Input) -> None:
    """Check the `input`s of what are no tables. ServiceError input_mismatch says what differs.

    Features that are numbered in the dataset may be those the model makes: nobody can tell.
    """
    if dataset is None and not is_of_strings(model):
        return
    if different := _differing(model, dataset):
        raise ServiceError(
            "input_mismatch",
            f"the dataset's rows were made of documents in another way: {', '.join(different)}",
            "Read the documents in with the options that the model's were read in with: its input says which.",
        )
    ours, theirs = _compared(model), _compared(dataset)
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            raise _mismatch(name)


def _shifted(model: Model, manifest: Manifest) -> Array:
    """Columns by their places, wherever their numbers begin."""
    return np.arange(manifest.input_width) + model.index_base - manifest.index_base


def _by_columns(model: Model, ours: dict[str, Any], manifest: Manifest, theirs: dict[str, Any]) -> Matched:
    for name in _MADE_ALIKE:
        if ours.get(name) != theirs.get(name):
            raise _mismatch(name)
    names = theirs["columns"] if theirs["has_names"] else None
    label = label_place(ours, names)
    match = match_columns(ours, names, len(theirs["columns"]), [] if label is None else [label])
    own_names = {theirs["columns"][place]: name for name, place in _pairs(match.columns)}
    if {own_names.get(name) for name in theirs["categorical"]} ^ set(ours["categorical"]):
        raise _mismatch("categorical")
    own, first = _numbers(ours, {name: name for name in ours["columns"]})
    given, first_given = _numbers(theirs, own_names)
    beyond = max(model.index_base + model.n_features, manifest.input_width)
    numbers = -1 - np.arange(manifest.input_width)
    numbers[manifest.index_base + first_given :] = beyond + np.arange(manifest.n_features - first_given)
    for key in given.keys() & own.keys():
        numbers[manifest.index_base + given[key]] = model.index_base + own[key]
    if ours.get("categories") == "hashed":
        hashed = np.arange(ours["n_features"])
        numbers[manifest.index_base + first_given + hashed] = model.index_base + first + hashed
    return Matched(numbers, match.unknown)


def _pairs(columns: MixedColumns) -> Iterator[tuple[str, int]]:
    return zip(columns.names, columns.places, strict=True)


def _numbers(input_: dict[str, Any], own_names: Mapping[str, str]) -> tuple[dict[_Key, int], int]:
    """Numbers from 0 of features, by column and word, or by column and what of it, and of the first category.

    own_names: what the model calls those columns that it has
    """
    words = set(input_["categorical"])
    columns = [name for name in input_["columns"] if name not in words]
    kinds = [(), ("is missing",)] if input_["missing"] == "indicator" else [()]
    found: dict[_Key, int] = {}
    for number, (kind, name) in enumerate(product(kinds, columns)):
        if name in own_names:
            found[own_names[name], "", *kind] = number
    first = len(kinds) * len(columns)
    for name, numbers in input_.get("dictionary", {}).items():
        found |= {(own_names[name], word, "word"): first + number for word, number in numbers.items()}
    return found, first


def _mismatch(name: str) -> ServiceError:
    return ServiceError(
        "input_mismatch",
        f"rows of the dataset are not made as those of the model: they differ in {name}",
        "Read the data in with the options of the model's dataset, or add them to it.",
    )


def _compared(input: Input) -> dict[str, Any]:
    return {name: value for name, value in (input or {}).items() if name not in _ELSEWHERE}


def _differing(model: Mapping[str, Any] | None, dataset: Mapping[str, Any] | None) -> list[str]:
    """In what the two inputs (Manifest.input) differ, if one is of documents, in words; [] if either is not known."""
    if model is None or dataset is None or "text" not in (model["format"], dataset["format"]):
        return []
    names = ["format"] if model["format"] != dataset["format"] else sorted({*model, *dataset} - _ANYWHERE)
    return [
        f"{name} is {_shown(dataset.get(name))}, of the model {_shown(model.get(name))}"
        for name in names
        if model.get(name) != dataset.get(name)
    ]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
