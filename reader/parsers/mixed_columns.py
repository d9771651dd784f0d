"""Which columns of a table make features, and how: as the options say, or as rows before them were."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from reader.errors import InputError
from reader.options import InputOptions
from reader.parsers.columns import Columns, Heading
from storage.csr import Array

ALL = "all"
_SHOWN = 5  # names in a message
_KEPT = ("label_column", "weight_column", "group_column")
_SAME = ("missing", "categories")


@dataclass(frozen=True)
class MixedColumns:
    """
    names   of the columns that make features, or their numbers from 1
    places  where they stand, from 0
    is_word whether they hold categories
    """

    names: list[str]
    places: list[int]
    is_word: list[bool]

    @cached_property
    def word_names(self) -> list[str]:
        """Names of those with categories."""
        return [name for name, is_word in zip(self.names, self.is_word, strict=True) if is_word]

    @cached_property
    def number_places(self) -> Array:
        """(k,) places of those with numbers."""
        return np.array(self.places, np.int64)[~np.array(self.is_word, bool)]

    @cached_property
    def words(self) -> list[int]:
        """Places of those with categories."""
        return [place for place, is_word in zip(self.places, self.is_word, strict=True) if is_word]


def is_numbers(input_: dict[str, Any] | None) -> bool:
    """Whether rows of a dataset with this `input` are a table of numbers, each column a feature."""
    return input_ is not None and "columns" in input_ and not input_["categorical"] and input_["missing"] != "indicator"


def like_before(options: InputOptions) -> InputOptions:
    """With what the rows before say. InputError option_unused for an option that contradicts them, input_mismatch."""
    like = options.like
    if not like or "format" not in like:
        return options
    if "columns" not in like:
        if like["format"] == "fasta":
            return replace(options, string_column=options.string_column or like.get("string_column"))
        raise InputError("input_mismatch", f"these rows are a table, those before are {like['format']}")
    if is_numbers(like) and options.categorical:
        raise InputError("input_mismatch", "the dataset was made of numbers only")
    for name in (*_SAME, *(["n_features"] if "n_features" in like else [])):
        if name in options.given and getattr(options, name) != like[name]:
            raise InputError("option_unused", f"{name} is {like[name]} for all rows of this dataset")
    if options.categorical not in (None, ALL) and set(options.categorical.split(",")) != set(like["categorical"]):
        raise InputError(
            "option_unused", f"categorical is {','.join(like['categorical'])} for all rows of this dataset"
        )
    same = {name: like[name] for name in _SAME}
    return replace(options, categorical=None, **same)


def new_columns(options: InputOptions, heading: Heading, aside: list[int], with_words: set[int]) -> MixedColumns:
    """Of a dataset to be made; with_words: those that words were seen in. InputError categorical_missing."""
    is_aside = set(aside)
    places = [place for place in range(heading.n_columns) if place not in is_aside]
    if options.categorical == ALL:
        words = with_words & set(places)
    else:
        words = set(heading.places(options.categorical, "categorical")) if options.categorical else set()
    if words & is_aside:
        raise InputError("same_column", "a column of labels, weights or groups is named as categorical", line=1)
    return MixedColumns([heading.name(place) for place in places], places, [place in words for place in places])


def columns_before(like: dict[str, Any], heading: Heading, aside: list[int]) -> MixedColumns:
    """Those of `like` in a further table: by name, or where they stood if neither has names.

    InputError column_missing, columns_differ, header_differs, column_count.
    """
    names = like["columns"]
    words = set(like["categorical"])
    is_word = [name in words for name in names]
    if (heading.names is not None) != like["has_names"]:
        ours, theirs = ("have no", "have") if like["has_names"] else ("have", "have no")
        raise InputError("header_differs", f"these rows {ours} names of columns, those before {theirs} names", line=1)
    if like["has_names"]:
        return MixedColumns(names, _named(names, heading, aside), is_word)
    if heading.n_columns == like["n_columns"]:
        return MixedColumns(names, like["places"], is_word)
    is_aside = set(aside)
    rest = [place for place in range(heading.n_columns) if place not in is_aside]
    if len(rest) == len(names):
        return MixedColumns(names, rest, is_word)
    told = f"the line has {heading.n_columns} columns, those before had {like['n_columns']}"
    raise InputError("column_count", told, line=1)


def _named(names: list[str], heading: Heading, aside: list[int]) -> list[int]:
    """The places of all columns with these names."""
    places = [heading.place_of(name) for name in names]
    if both := [heading.name(place) for place in aside if place in set(places)]:
        raise InputError("same_column", f"column {_listed(both)} was a feature in the rows before", line=1)
    known = {*aside, *places}
    others = [heading.name(place) for place in range(heading.n_columns) if place not in known]
    missing = [name for name, place in zip(names, places, strict=True) if place is None]
    if others:
        told = f", without {_listed(missing)}" if missing else ""
        raise InputError(
            "columns_differ", f"there are columns that were not there before: {_listed(others)}{told}", line=1
        )
    if missing:
        raise InputError("column_missing", f"there is no column {_listed(missing)}", line=1)
    return [place for place in places if place is not None]


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name[:40]) for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


def string_place(options: InputOptions, heading: Heading, aside: list[int]) -> int | None:
    """Place of the column with strings; None if there is none. InputError string_column_missing, same_column."""
    wanted = options.string_column
    if wanted is None:
        if options.like and options.like.get("format") == "fasta":
            raise InputError("string_column_missing", "string_column says which column has the strings", line=1)
        return None
    place = heading.place(wanted, "string_column")
    if place in aside:
        raise InputError("same_column", "the column of strings is one of labels, weights or groups, too", line=1)
    return place


def told_columns(columns: MixedColumns, aside: Columns, heading: Heading) -> dict[str, Any]:
    """The part of `input` that says where columns are found: by name, or by number from 1 if they have none."""
    found = zip(_KEPT, (aside.label, aside.weight, aside.group), strict=True)
    kept = {option: heading.name(place) for option, place in found if place is not None}
    return {
        "has_names": heading.names is not None,
        "n_columns": heading.n_columns,
        "places": columns.places,
        **kept,
    }
