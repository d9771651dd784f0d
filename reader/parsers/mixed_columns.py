"""Which columns of a table with words in it make features, and how: as the options say, or as rows before them were."""

from dataclasses import dataclass, replace
from typing import Any

from reader.errors import InputError
from reader.options import InputOptions
from reader.parsers.matrix import column_number

ALL = "all"
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

    @property
    def word_names(self) -> list[str]:
        """Names of those with categories."""
        return [name for name, is_word in zip(self.names, self.is_word, strict=True) if is_word]

    @property
    def numbers(self) -> list[int]:
        """Places of those with numbers."""
        return [place for place, is_word in zip(self.places, self.is_word, strict=True) if not is_word]

    @property
    def words(self) -> list[int]:
        """Places of those with categories."""
        return [place for place, is_word in zip(self.places, self.is_word, strict=True) if is_word]


def is_mixed(options: InputOptions) -> bool:
    """Whether a table is more than numbers, labels and the like."""
    return bool(options.categorical or options.string_column or options.missing != "error" or options.like)


def like_before(options: InputOptions, labelled: bool) -> InputOptions:
    """With what the rows before say. InputError option_unused for an option that contradicts them, input_mismatch."""
    like = options.like
    if not like:
        return options
    if "columns" not in like:
        if like["format"] == "fasta":
            return replace(options, string_column=options.string_column or like.get("string_column"))
        raise InputError("input_mismatch", f"these rows are a table, those before are {like['format']}")
    for name in (*_SAME, *(["n_features"] if "n_features" in like else [])):
        if name in options.given and getattr(options, name) != like[name]:
            raise InputError("option_unused", f"{name} is {like[name]} for all rows of this dataset")
    if options.categorical not in (None, ALL) and set(options.categorical.split(",")) != set(like["categorical"]):
        raise InputError(
            "option_unused", f"categorical is {','.join(like['categorical'])} for all rows of this dataset"
        )
    known = {name: like.get(name) for name in _KEPT if labelled and getattr(options, name) is None}
    same = {name: like[name] for name in _SAME}
    return replace(options, categorical=None, **same, **known)  # type: ignore[arg-type]


def new_columns(
    options: InputOptions, names: list[str] | None, n_columns: int, aside: list[int], with_words: set[int]
) -> MixedColumns:
    """Of a dataset to be made; with_words: those that words were seen in. InputError categorical_missing."""
    places = [place for place in range(n_columns) if place not in aside]
    if options.categorical == ALL:
        words = with_words & set(places)
    else:
        wanted = options.categorical.split(",") if options.categorical else []
        words = {column_number(name.strip(), names, n_columns, "categorical") for name in wanted}
    if words & set(aside):
        raise InputError("same_column", "a column of labels, weights or groups is named as categorical", line=1)
    return MixedColumns([_name(place, names) for place in places], places, [place in words for place in places])


def columns_before(
    like: dict[str, Any], names: list[str] | None, n_columns: int, aside: list[int], may_have_others: bool
) -> MixedColumns:
    """Those of `like` in a further table: by name, or where they stood. InputError column_missing, column_count.

    may_have_others: whether columns that were not there before are passed over
    """
    wanted = like["columns"]
    words = set(like["categorical"])
    is_word = [name in words for name in wanted]
    if names is not None and like["has_names"]:
        for name in wanted:
            if name not in names:
                raise InputError("column_missing", f"there is no column {name[:40]!r}", line=1)
        others = set(range(n_columns)) - set(aside) - {names.index(name) for name in wanted}
        if others and not may_have_others:
            raise InputError("column_count", f"the dataset has no column {names[min(others)][:40]!r}", line=1)
        return MixedColumns(wanted, [names.index(name) for name in wanted], is_word)
    if n_columns == like["n_columns"]:
        return MixedColumns(wanted, like["places"], is_word)
    rest = [place for place in range(n_columns) if place not in aside]
    if len(rest) == len(wanted):
        return MixedColumns(wanted, rest, is_word)
    raise InputError("column_count", f"the line has {n_columns} columns, those before had {like['n_columns']}", line=1)


def string_place(options: InputOptions, names: list[str] | None, n_columns: int, aside: list[int]) -> int | None:
    """Place of the column with strings; None if there is none. InputError string_column_missing, same_column."""
    wanted = options.string_column
    if wanted is None:
        if options.like and "columns" not in options.like:
            raise InputError("string_column_missing", "string_column says which column has the strings", line=1)
        return None
    place = column_number(wanted, names, n_columns, "string_column")
    if place in aside:
        raise InputError("same_column", "the column of strings is one of labels, weights or groups, too", line=1)
    return place


def told_columns(columns: MixedColumns, options: InputOptions, has_names: bool, n_columns: int) -> dict[str, Any]:
    """The part of `input` that says where columns are found."""
    kept = {name: getattr(options, name) for name in _KEPT if getattr(options, name) is not None}
    return {"has_names": has_names, "n_columns": n_columns, "places": columns.places, **kept}


def _name(place: int, names: list[str] | None) -> str:
    return str(place + 1) if names is None else names[place]
