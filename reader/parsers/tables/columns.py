"""Finds columns of a table by name or number, among them labels, weights and groups; writes hints for wrong columns."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from streamsvm.reader.errors import HINTS, InputError
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.fields import DATE

UNNAMED = "Unnamed: "  # and its position: pandas' name of a column that has none, while others have names
MOST_COLUMNS = 1 << 20
_MANY_COLUMNS = 10_000  # looking for a similar name among more columns takes seconds
LABEL_NAMES = ("label", "y", "target", "class")
_DECIMAL_COMMA = re.compile(rb"[+-]?\d*,\d+")
_OF_OTHERS = {
    "label": "set label_type=string if labels are words, or name the column of labels: label_column",
    "weight": "write weights as plain decimal numbers, or name another column: weight_column",
}
_AS_BEFORE = "write plain decimal numbers: this column had numbers before"


def too_many_columns() -> InputError:
    """Return the error for a table of more than MOST_COLUMNS columns."""
    return InputError("too_many_columns", f"there are more than {MOST_COLUMNS} columns", line=1)


class Heading:
    """Finds the positions, from 0, of columns of a table by their names or numbers.

    Raises InputError too_many_columns, duplicate_column.

    names      names of the columns; None: they have no names
    n_columns  number of columns
    """

    def __init__(self, names: Sequence[str] | None, n_columns: int) -> None:
        if n_columns > MOST_COLUMNS:
            raise too_many_columns()
        self.names = names
        self.n_columns = n_columns
        self._places = {} if names is None else dict(zip(names, range(n_columns), strict=True))
        if names is not None and len(self._places) < n_columns:
            raise InputError("duplicate_column", "a column name stands twice")

    def place_of(self, name: str) -> int | None:
        """Return the position of the column with this name; None if no column has it."""
        return self._places.get(name)

    def place(self, wanted: str, option: str) -> int:
        """Return the position of the column whose name or number is `wanted`, the value of `option`.

        Raises InputError column_ambiguous, or the option's name and "_missing", such as label_column_missing.
        """
        named, numbered = self.place_of(wanted), self._numbered(wanted)
        if named is not None and numbered is not None and named != numbered:
            message = f"{option} {wanted} is the number of {self.shown(numbered)} and the name of {self.shown(named)}"
            one, other = numbered - self.n_columns, named - self.n_columns
            how = f"count from the end, where -1 is the last: {one} is the one, {other} the other"
            raise InputError("column_ambiguous", message, hint=how, line=1)
        place = numbered if named is None else named
        if place is not None:
            return place
        names = f"; the first columns are {', '.join(self.names[:8])}" if self.names else ""
        message = f"there is no column {wanted!r} among {self.n_columns}{names}"
        near = get_close_matches(wanted, self.names or (), 1) if self.n_columns < _MANY_COLUMNS else []
        hint = f"did you mean {near[0]}? else {HINTS[f'{option}_missing']}" if near else None
        raise InputError(f"{option}_missing", message, hint=hint, line=1)

    def places(self, wanted: str, option: str) -> list[int]:
        """Return the positions of the columns listed in `wanted`, a line of CSV with commas. Raises as `place`."""
        return self.places_of(listed(wanted), option)

    def places_of(self, wanted: Sequence[str], option: str) -> list[int]:
        """Return the positions of the columns `wanted`, each a name or a number. Raises as `place`."""
        return [self.place(each, option) for each in wanted]

    def name(self, place: int) -> str:
        """Return the name of the column at a position, or its number from 1 if the columns have no names."""
        return self.names[place] if self.names else str(place + 1)

    def option(self, place: int) -> str:
        """Return how an option in a hint names a column: by its name if that is a plain word, else by its number."""
        name = self.name(place)
        return name if name.isascii() and name.isidentifier() else str(place + 1)

    def shown(self, place: int) -> str:
        """Return the number and name of a column, for a message."""
        return f"column {place + 1} ({self.names[place][:40]})" if self.names else f"column {place + 1}"

    def label(self) -> int:
        """Return the position of the labels: the one column named as in LABEL_NAMES; if names are numbers, the first.

        Raises InputError label_column_missing.
        """
        numbers = [place for place, name in enumerate(self.names or ()) if name.isdecimal()]
        if numbers and len(numbers) >= self.n_columns - (self.place_of(f"{UNNAMED}0") == 0):
            return numbers[0]
        places = [place for place, name in enumerate(self.names or ()) if name.lower() in LABEL_NAMES]
        if len(places) != 1:
            message = f"none of the columns, or more than one, is called {', '.join(LABEL_NAMES)}"
            raise InputError("label_column_missing", message, line=1)
        return places[0]

    def _numbered(self, wanted: str) -> int | None:
        try:
            number = int(wanted)
        except ValueError:
            return None
        if not 1 <= abs(number) <= self.n_columns:
            return None
        return number - 1 if number > 0 else self.n_columns + number


def listed(wanted: str) -> list[str]:
    """Return the names in a list between commas; a name with a comma is in quotes."""
    return [name.strip() for line in csv.reader([wanted], skipinitialspace=True) for name in line]


@dataclass(frozen=True)
class ColumnPlaces:
    """Positions, from 0, of the columns of labels, weights and groups; None: the table has no such column."""

    label: int | None
    weight: int | None
    group: int | None

    @property
    def aside(self) -> list[int]:
        """The positions that are not None: these columns make no features."""
        return [place for place in (self.label, self.weight, self.group) if place is not None]


def find_label(options: InputOptions, heading: Heading) -> int:
    """Return the labels' position: by option, else as in the dataset, else `Heading.label`, or 0 if there are no names.

    Raises InputError label_column_missing, column_ambiguous.
    """
    if options.label_column is not None:
        return heading.place(options.label_column, "label_column")
    before = (options.like or options.trained or {}).get("label_column")
    if before is not None and (heading.names is None or heading.place_of(before) is not None):
        return _before(before, "label_column", heading)
    return 0 if heading.names is None else heading.label()


def find_columns(label: int | None, options: InputOptions, heading: Heading) -> ColumnPlaces:
    """Return `label` and the positions of weights and groups, which the options name, or else the dataset's `input`.

    Raises InputError weight_column_missing, group_column_missing, column_ambiguous, same_column.
    """
    weight, group = (_aside(option, options, heading) for option in ("weight_column", "group_column"))
    columns = ColumnPlaces(label, weight, group)
    if len(set(columns.aside)) < len(columns.aside):
        raise InputError("same_column", "a column is named for two of labels, weights and groups", line=1)
    return columns


def _aside(option: str, options: InputOptions, heading: Heading) -> int | None:
    wanted = getattr(options, option)
    if wanted is not None:
        return heading.place(wanted, option)
    before = (options.like or {}).get(option)
    if before is None or (heading.names is not None and heading.place_of(before) is None):
        return None
    return _before(before, option, heading)


def _before(column: str, option: str, heading: Heading) -> int:
    """Return the position of a column of the dataset: by its name, else by its number."""
    named = heading.place_of(column)
    return heading.place(column, option) if named is None else named


def string_place(options: InputOptions, heading: Heading, aside: list[int]) -> int | None:
    """Return the position of the strings of bases, or None. Raises InputError string_column_missing, same_column."""
    wanted = options.string_column
    if wanted is None:
        if options.like and options.like.get("format") == "fasta":
            raise InputError("string_column_missing", "string_column says which column has the strings", line=1)
        return None
    place = heading.place(wanted, "string_column")
    if place in aside:
        raise InputError("same_column", "the column of strings is one of labels, weights or groups, too", line=1)
    return place


def columns_of_documents(
    options: InputOptions, heading: Heading, to_judge: ColumnPlaces | None
) -> tuple[int, ColumnPlaces]:
    """Return the position of the documents, and those of labels, weights and groups.

    to_judge  of rows to predict: the columns that are not the model's, see `ToPredict.aside`

    Raises InputError text_column_missing and others as `find_label` and `find_columns`.
    """
    assert options.text_column is not None
    text = 0 if heading.n_columns == 1 else heading.place(options.text_column, "text_column")
    label = to_judge.label if to_judge else find_label(options, heading)
    if options.label_column is None and heading.names is None:
        label = _usual_label(options, heading, text, is_needed=to_judge is None)
    columns = find_columns(label, options, heading)
    if text in columns.aside:
        raise InputError("same_column", "the column of documents has labels, weights or groups, too", line=1)
    return text, columns


def _usual_label(options: InputOptions, heading: Heading, text: int, is_needed: bool) -> int | None:
    """Return the position of labels in a table without names: as in training, else of the first two columns the other.

    None if rows need no labels and the table has no such column. Raises InputError label_column_missing.
    """
    before = (options.like or options.trained or {}).get("label_column")
    wanted = before if before is not None and is_place(before) else str(1 + (text == 0))
    try:
        place = heading.place(wanted, "label_column")
    except InputError:
        if is_needed:
            raise
        return None
    return place if is_needed or place != text else None


def is_place(wanted: str) -> bool:
    """Return whether `wanted`, the value of an option, is the number of a column, not a name."""
    return wanted.lstrip("-").isdecimal()


def number_hint(field: bytes, kind: str, column: str, is_new: bool) -> str:
    """Return the hint for a field that should be a number and is none.

    kind    "field", "label" or "weight"
    column  name or number of the field's column, see `Heading.option`
    is_new  whether the rows make a new dataset, so that options may still choose what the column holds
    """
    if _DECIMAL_COMMA.fullmatch(field):
        return "set decimal=comma if numbers are written as 1,5"
    if kind in _OF_OTHERS:
        return _OF_OTHERS[kind]
    if not is_new:
        return _AS_BEFORE
    if DATE.match(field):
        return _of_dates(column)
    if field.count(b" ") > 1:
        return f"{_of_words(column)}; text_column={column} if it has documents"
    return _of_words(column)


def not_filled_in(error: InputError) -> InputError:
    """Return the error of a label, weight, group or document; if it is missing, with the hint that fits it."""
    if error.code == "missing_value":
        error.hint = "no option fills in a label, weight, group or document: on_bad_row=skip leaves its row out"
    return error


def type_hint(column: str, is_new: bool, is_date: bool, is_words: bool) -> str:
    """Return the hint for a column whose type has no numbers; for `column` and `is_new` see `number_hint`."""
    if not is_new:
        return _AS_BEFORE
    if is_date:
        return _of_dates(column)
    return _of_words(column) if is_words else f"leave the column out: drop_columns={column}"


def _of_dates(column: str) -> str:
    return f"leave the column of dates out: drop_columns={column}; or make each date a category: categorical=all"


def _of_words(column: str) -> str:
    words = f"set categorical=all if words are categories, or leave the column out: drop_columns={column}"
    return f"{words}; label_column={column} if it has the labels"
