"""Tells a line of names from a row whose label, or group, is a string."""

from reader.options import InputOptions
from reader.parsers.csv_fields import BadQuote, Field, FieldReader, is_header, is_text
from reader.parsers.mixed_columns import ALL


def has_header(fields: list[Field], second: bytes, reader: FieldReader, options: InputOptions, labelled: bool) -> bool:
    """Whether these fields, of the first line, name the columns; `second` is the line behind it.

    They do if there is text among them: but where text stands in columns only that may hold strings, and were told by
    number, and in these the second line has text, too, the first is a row like the second. A line with the name of a
    column that is known has names; where the columns are known, no other line has.
    """
    if not is_header(fields):
        return False
    if {name.decode(errors="replace") for _, name in fields} & _told_names(options):
        return True
    if options.like and "columns" in options.like:
        return False
    places = {place for place, (_, field) in enumerate(fields) if is_text(field)}
    try:
        below = {place for place, (_, field) in enumerate(reader.split(second)) if is_text(field)}
    except BadQuote:
        return True
    return not (places <= _text_columns(options, labelled, len(fields)) and places <= below)


def _told_names(options: InputOptions) -> set[str]:
    """Names of columns that options have."""
    columns = [options.label_column, options.weight_column, options.group_column, options.string_column]
    told = [name for name in (*columns, *(options.categorical or "").split(",")) if name and not _is_number(name)]
    like = options.like or {}
    return {*told, *(like["columns"] if like.get("has_names") else [])}


def _is_number(wanted: str) -> bool:
    return wanted.lstrip("-").isdecimal()


def _text_columns(options: InputOptions, labelled: bool, n_columns: int) -> set[int]:
    """Columns that may hold strings in a table without names."""
    label = options.label_column or ("1" if labelled else None)
    if options.categorical == ALL:
        return set(range(n_columns))
    further = options.categorical.split(",") if options.categorical else []
    told = [options.group_column, options.string_column, *further, None if options.label_type == "number" else label]
    numbers = [int(wanted) for wanted in told if wanted is not None and _is_number(wanted)]
    return {number - 1 if number > 0 else n_columns + number for number in numbers}
