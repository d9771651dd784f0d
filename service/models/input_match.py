"""Whether the rows of a dataset are made as those that a model was trained on."""

from collections.abc import Mapping
from typing import Any

from reader.parsers.mixed_columns import is_numbers
from reader.parsers.strings import is_of_strings
from service.errors import ServiceError

# Where columns were found is no matter, nor from what file they came.
_ELSEWHERE = {
    "places",
    "n_columns",
    "has_names",
    "label_column",
    "weight_column",
    "group_column",
    "string_column",
    "text_column",
}
_ANYWHERE = {"text_column"}  # documents in a table
_TABLES = ("csv", "tsv", "parquet")

Input = dict[str, Any] | None


def check_input(model: Input, dataset: Input) -> None:
    """Of their `input`s. ServiceError input_mismatch that says what differs.

    Features that are numbered in either may be those of the other: nobody can tell.
    """
    if not is_of_strings(model) and (dataset is None or (model is None and is_numbers(dataset))):
        return
    if different := _differing(model, dataset):
        raise ServiceError(
            "input_mismatch",
            f"the dataset's rows were made of documents in another way: {', '.join(different)}",
            "Read the documents in with the options that the model's were read in with: its input says which.",
        )
    ours, theirs = _compared(model), _compared(dataset)
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name) and not (name == "dictionary" and _agree(model, dataset)):
            raise ServiceError(
                "input_mismatch",
                f"rows of the dataset are not made as those of the model: they differ in {name}",
                "Read the data in with the options of the model's dataset, or add them to it.",
            )


def _compared(input: Input) -> dict[str, Any]:
    kept = {name: value for name, value in (input or {}).items() if name not in _ELSEWHERE}
    return kept | ({"format": "a table"} if kept.get("format") in _TABLES else {})


def _agree(model: Input, dataset: Input) -> bool:
    """Whether no category has different numbers, and no number is of two categories: one has more rows of the other."""
    ours, theirs = (_numbers(each) for each in (model, dataset))
    return all(ours[word] == theirs[word] for word in ours.keys() & theirs.keys()) and len(ours | theirs) == len(
        {*ours.values(), *theirs.values()}
    )


def _numbers(input: Input) -> dict[tuple[str, str], int]:
    words = (input or {}).get("dictionary", {})
    return {(column, word): number for column, of in words.items() for word, number in of.items()}


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
