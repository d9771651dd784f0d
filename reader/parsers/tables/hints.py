"""Says what to do about a column that should hold numbers and has something else, by what that looks like."""

import re

_DECIMAL_COMMA = re.compile(rb"[+-]?\d*,\d+")
_DATE = re.compile(rb"\d{4}-\d\d?-\d\d?(?!\d)|\d\d?([./-])\d\d?\1\d{2,4}(?!\d)")
_OF_OTHERS = {
    "label": "set label_type=string if labels are words, or name the column of labels: label_column",
    "weight": "write weights as plain decimal numbers, or name another column: weight_column",
}
_AS_BEFORE = "write plain decimal numbers: this column had numbers before"


def number_hint(field: bytes, kind: str, column: str, is_new: bool) -> str:
    """Say what to do about a field that is no number.

    kind    "field", "label" or "weight"
    column  its name or number, as an option names it
    is_new  whether options may still say what the column holds: rows make a dataset, and are no further ones
    """
    if _DECIMAL_COMMA.fullmatch(field):
        return "set decimal=comma if numbers are written as 1,5"
    if kind in _OF_OTHERS:
        return _OF_OTHERS[kind]
    if not is_new:
        return _AS_BEFORE
    if _DATE.match(field):
        return _of_dates(column)
    if field.count(b" ") > 1:
        return f"{_of_words(column)}; text_column={column} if it has documents"
    return _of_words(column)


def type_hint(column: str, is_new: bool, is_date: bool, is_words: bool) -> str:
    """Say what to do about a column whose type has no numbers; for column and is_new see `number_hint`."""
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
