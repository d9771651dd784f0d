"""Decides which columns of a table make features, and how: by the options, or by the dataset the rows are added to."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.columns import UNNAMED, ColumnPlaces, Heading, listed
from streamsvm.storage.rows.csr import Array

ALL = "all"
_SHOWN = 5  # names in a message
ASIDE = ("label_column", "weight_column", "group_column")
_SAME = ("missing", "categories")
_INDEX = re.compile(r"__index_level_\d+__")  # pandas' name in Parquet for an index without a name


@dataclass(frozen=True)
class MixedColumns:
    """The columns of a table that make features.

    names    names of the columns, or their numbers from 1 as text
    places   positions of the columns in the table, from 0
    is_word  whether each column holds categories
    dropped  names of columns that are neither features nor labels, weights or groups
    index    names of dropped columns that hold pandas' index
    by_name  whether the values of a row are in the order of their columns' names, not in that of `names`
    """

    names: list[str]
    places: list[int]
    is_word: list[bool]
    dropped: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    by_name: bool = False

    @cached_property
    def word_names(self) -> list[str]:
        """Names of the columns with categories, in the order of their values in rows."""
        return [self.names[k] for k in self._order if self.is_word[k]]

    @cached_property
    def number_names(self) -> list[str]:
        """Names of the columns with numbers, in the order of their values in rows."""
        return [self.names[k] for k in self._order if not self.is_word[k]]

    @cached_property
    def number_places(self) -> Array:
        """Positions (k,) of the columns with numbers, in the order of their values in rows."""
        return np.array([self.places[k] for k in self._order if not self.is_word[k]], np.int64)

    @cached_property
    def words(self) -> list[int]:
        """Positions of the columns with categories, in the order of their values in rows."""
        return [self.places[k] for k in self._order if self.is_word[k]]

    @cached_property
    def number_features(self) -> Array | None:
        """Features (k,), from 0, of the columns `number_places`, numbered in the order of `names`; None: 0 to k - 1."""
        features = np.array([k for k in self._order if not self.is_word[k]], np.int64).argsort().argsort()
        return features if (np.diff(features) < 0).any() else None

    @cached_property
    def _order(self) -> Sequence[int]:
        places = range(len(self.names))
        return sorted(places, key=self.names.__getitem__) if self.by_name else places


def is_numbers(input_: dict[str, Any] | None) -> bool:
    """Return whether a dataset with this `input` is a table of numbers in which each column is one feature."""
    return input_ is not None and "columns" in input_ and not input_["categorical"] and input_["missing"] != "indicator"


def like_before(options: InputOptions) -> InputOptions:
    """Return the options, completed by options.like: the `input` of the dataset or model that the rows must fit.

    Raises InputError option_unused if an option contradicts options.like, input_mismatch for rows of another kind.
    """
    like = options.like
    if not like or "format" not in like:
        return options
    if "columns" not in like:
        if like["format"] == "fasta":
            return replace(options, string_column=options.string_column or like.get("string_column"))
        raise InputError("input_mismatch", f"these rows are a table, the dataset's are {like['format']}")
    if is_numbers(like) and options.categorical:
        raise InputError("input_mismatch", "the dataset was made of numbers only")
    for name in (*_SAME, *(["n_features"] if "n_features" in like else [])):
        if name in options.given and getattr(options, name) != like[name]:
            raise InputError("option_unused", f"{name} is {like[name]} for all rows of this dataset")
    if options.categorical not in (None, ALL) and set(listed(options.categorical)) != set(like["categorical"]):
        raise InputError(
            "option_unused", f"categorical is {','.join(like['categorical'])} for all rows of this dataset"
        )
    same = {name: like[name] for name in _SAME}
    return replace(options, categorical=None, **same)


def check_header(options: InputOptions, heading: Heading) -> None:
    """Raise InputError header_differs if columns have names only in this table, or only in the dataset or the model."""
    before = (options.like or options.trained or {}).get("has_names")
    if before is not None and before != (heading.names is not None):
        ours, theirs = ("have no", "have") if before else ("have", "have no")
        message = f"the columns of these rows {ours} names, those of the rows before, or of training, {theirs} names"
        raise InputError("header_differs", message, line=1)


def new_columns(
    options: InputOptions, heading: Heading, aside: list[int], with_words: set[int], index: Collection[str] = ()
) -> MixedColumns:
    """Choose the columns that make the features of a new dataset.

    with_words  positions of the columns that hold words
    index       names of the columns that are an index of pandas by the file's metadata

    Raises InputError categorical_missing, columns_missing, drop_columns_missing, column_ambiguous, same_column.
    """
    wanted, of_index = chosen(options, heading), set[int]()
    left_out = set(heading.places(options.drop_columns, "drop_columns")) if options.drop_columns else set()
    if left_out & set(aside):
        raise InputError("same_column", "a column of labels, weights or groups is named in drop_columns", line=1)
    if wanted is None:
        wanted = set(range(heading.n_columns))
        of_index = {place for place in wanted - {*aside, *left_out} if is_index(place, heading, index)}
    places = sorted(wanted - {*aside, *left_out, *of_index})
    if options.columns is not None and not places:
        raise InputError("columns_missing", "none of the columns is left to be a feature", line=1)
    if options.categorical in (None, ALL):
        words = with_words.intersection(places)
    else:
        words = set(heading.places(options.categorical, "categorical"))
    if words - set(places):
        message = "a column in categorical is no feature: it is left out, or has labels, weights or groups"
        raise InputError("same_column", message, line=1)
    used = {*places, *aside}
    dropped = tuple(heading.name(place) for place in range(heading.n_columns) if place not in used)
    names = [heading.name(place) for place in places]
    shown = tuple(heading.name(place) for place in sorted(of_index))
    is_word, by_name = [place in words for place in places], heading.names is not None
    return MixedColumns(names, places, is_word, dropped, shown, by_name)


def chosen(options: InputOptions, heading: Heading) -> set[int] | None:
    """The places of the columns that options.columns lists; None if it is not set."""
    return None if options.columns is None else set(heading.places(options.columns, "columns"))


def is_index(place: int, heading: Heading, index: Collection[str] = ()) -> bool:
    """Whether a column holds pandas' index, as its name says, or the metadata, which call the columns `index` so."""
    if heading.names is None:
        return False
    name = heading.names[place]
    return name in index or name == f"{UNNAMED}0" or _INDEX.fullmatch(name) is not None


def first_names(names: Collection[str]) -> str:
    """Return the first few names in quotes, and the number of the others, for a message."""
    shown = ", ".join(repr(name[:40]) for name in list(names)[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


def column_entries(format_: str, columns: MixedColumns, aside: ColumnPlaces, heading: Heading) -> dict[str, Any]:
    """Return the entries of `Manifest.input` that say where the columns of a new dataset are."""
    places = zip(ASIDE, (aside.label, aside.weight, aside.group), strict=True)
    names_aside = {option: heading.name(place) for option, place in places if place is not None}
    return {
        "format": format_,
        "has_names": heading.names is not None,
        **({"order": "names"} if columns.by_name else {}),
        "n_columns": heading.n_columns,
        "places": columns.places,
        **({"dropped": list(columns.dropped)} if columns.dropped else {}),
        **names_aside,
    }
