"""Matches the features of a dataset to a model's, or says how the rows were made differently.

Features of tables are matched by column and, for categories, by word. All other features match by number.
"""

from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.fasta import is_of_strings
from streamsvm.reader.parsers.tables.matching import match_columns, match_names
from streamsvm.service.errors import ServiceError
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.rows.csr import Array

# Options that say where to find the text or string in the file; they do not change the features.
_PLACES = {"form", "string_column", "text_column", "label_column", "weight_column", "group_column"}
_PLACES_OF_DOCUMENTS = {"form", "text_column", "label_column"}
_SAME_FOR_TABLES = ("missing", "categories", "n_features")

Input = dict[str, Any] | None
_Key = tuple[str, ...]


class Matched(NamedTuple):
    """How a dataset's features relate to a model's.

    numbers          (width,) the model's number of each feature of the dataset; None: the numbers are the same.
                     A word that the model does not know has a number above all features of both. A feature of a
                     column that is left out has a number below 0
    unknown_columns  names of the dataset's columns that are left out
    """

    numbers: Array | None
    unknown_columns: list[str]


def match_dataset(model: Model, manifest: Manifest) -> Matched:
    """Match a dataset's features to a model's.

    Raises ServiceError input_mismatch, index_base_mismatch, column_missing, header_differs, column_count.
    """
    ours, theirs = model.about.get("input"), manifest.input
    if theirs is None or "columns" not in theirs or (ours is not None and "columns" not in ours):
        check_input(ours, theirs)
        check_base(model, manifest)
        return Matched(None, [])
    if ours is None and theirs["categorical"]:
        raise _mismatch("categorical")
    try:
        if ours is None:
            match_columns({"n_features": model.n_features}, None, manifest.n_features, [])
            # Columns match by position: the dataset's feature numbers are shifted to the model's index_base.
            return Matched(np.arange(manifest.input_width) + model.index_base - manifest.index_base, [])
        return _by_columns(model, ours, manifest, theirs)
    except InputError as error:
        raise ServiceError(error.code, error.message, "Evaluate on a dataset with the columns of training.") from None


def check_input(model: Input, dataset: Input) -> None:
    """Raise ServiceError input_mismatch if the `input`s of a model and a dataset, not both tables, differ.

    A dataset of numbered features passes unless the model takes strings: the dataset's numbers may be the model's.
    """
    if dataset is None and not is_of_strings(model):
        return
    if different := _differing(model, dataset):
        raise ServiceError(
            "input_mismatch",
            f"documents became rows with other options than the model's: {', '.join(different)}",
            "Read the documents in with the options in the model's input.",
        )
    ours, theirs = _compared(model), _compared(dataset)
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            raise _mismatch(name)


def check_base(model: Model, manifest: Manifest) -> None:
    """Raise ServiceError index_base_mismatch if the first features of a model and a dataset have other numbers."""
    if manifest.index_base < model.index_base:
        raise ServiceError(
            "index_base_mismatch",
            "the dataset has a feature 0, the model's features start at 1",
            "Number the features as in the data that the model was trained on.",
        )
    if manifest.index_base > model.index_base and manifest.n_features == model.n_features > 0:
        last = model.n_features
        raise ServiceError(
            "index_base_mismatch",
            f"the model's features are 0 to {last - 1}, the dataset's 1 to {last}",
            "Number the features as in the data that the model was trained on, or add the data with index_base=0.",
        )


def _by_columns(model: Model, ours: dict[str, Any], manifest: Manifest, theirs: dict[str, Any]) -> Matched:
    for name in _SAME_FOR_TABLES:
        if ours.get(name) != theirs.get(name):
            raise _mismatch(name)
    names = theirs["columns"] if theirs["has_names"] else None
    match = match_names(ours, names, len(theirs["columns"]))
    pairs = zip(match.columns.names, match.columns.places, strict=True)
    model_names = {theirs["columns"][place]: name for name, place in pairs}
    if {model_names.get(name) for name in theirs["categorical"]} ^ set(ours["categorical"]):
        raise _mismatch("categorical")
    of_model, first = _numbers(ours, {name: name for name in ours["columns"]})
    of_dataset, first_here = _numbers(theirs, model_names)
    beyond = max(model.index_base + model.n_features, manifest.input_width)
    numbers = -1 - np.arange(manifest.input_width)
    numbers[manifest.index_base + first_here :] = beyond + np.arange(manifest.n_features - first_here)
    for key in of_dataset.keys() & of_model.keys():
        numbers[manifest.index_base + of_dataset[key]] = model.index_base + of_model[key]
    if ours.get("categories") == "hashed":
        hashed = np.arange(ours["n_features"])
        numbers[manifest.index_base + first_here + hashed] = model.index_base + first + hashed
    return Matched(numbers, match.unknown)


def _numbers(input_: dict[str, Any], model_names: Mapping[str, str]) -> tuple[dict[_Key, int], int]:
    """Number the features of a table from 0; return the numbers by key, and the number of the first category.

    A key is (column, "", kind) for a column of numbers, (column, word, "word") for a category.
    model_names  name in this table -> name in the model's table, of each column that the model has
    """
    words = set(input_["categorical"])
    columns = [name for name in input_["columns"] if name not in words]
    kinds = [(), ("is missing",)] if input_["missing"] == "indicator" else [()]
    by_key: dict[_Key, int] = {}
    for number, (kind, name) in enumerate(product(kinds, columns)):
        if name in model_names:
            by_key[model_names[name], "", *kind] = number
    first = len(kinds) * len(columns)
    for name, numbers in input_.get("dictionary", {}).items():
        by_key |= {(model_names[name], word, "word"): first + number for word, number in numbers.items()}
    return by_key, first


def _mismatch(name: str) -> ServiceError:
    return ServiceError(
        "input_mismatch",
        f"rows of the dataset were made differently from the model's: they differ in {name}",
        "Read the data in with the options of the model's dataset, or add them to it.",
    )


def _compared(input: Input) -> dict[str, Any]:
    return {name: value for name, value in (input or {}).items() if name not in _PLACES}


def _differing(model: Mapping[str, Any] | None, dataset: Mapping[str, Any] | None) -> list[str]:
    """Say in words how two inputs (Manifest.input) differ if one has documents; [] if either is None."""
    if model is None or dataset is None or "text" not in (model["format"], dataset["format"]):
        return []
    names = ["format"] if model["format"] != dataset["format"] else sorted({*model, *dataset} - _PLACES_OF_DOCUMENTS)
    return [
        f"{name} is {_shown(dataset.get(name))}, the model's is {_shown(model.get(name))}"
        for name in names
        if model.get(name) != dataset.get(name)
    ]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
