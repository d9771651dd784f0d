"""Tells a line of names from a row whose label, or group, is a string."""

from reader.options import InputOptions
from reader.parsers.csv_fields import BadQuote, Field, FieldReader, is_header, is_text


def has_header(fields: list[Field], second: bytes, reader: FieldReader, options: InputOptions, labelled: bool) -> bool:
    """Whether these fields, of the first line, name the columns; `second` is the line behind it.

    They do if there is text among them: but where text stands in columns only that may hold strings, and were told by
    number, and in these the second line has text, too, the first is a row like the second.
    """
    if not is_header(fields):
        return False
    places = {place for place, (_, field) in enumerate(fields) if is_text(field)}
    try:
        below = {place for place, (_, field) in enumerate(reader.split(second)) if is_text(field)}
    except BadQuote:
        return True
    return not (places <= _text_columns(options, labelled, len(fields)) and places <= below)


def _text_columns(options: InputOptions, labelled: bool, n_columns: int) -> set[int]:
    """Columns that may hold strings in a table without names."""
    label = options.label_column or ("1" if labelled else None)
    told = [options.group_column, None if options.label_type == "number" else label]
    numbers = [int(wanted) for wanted in told if wanted is not None and wanted.lstrip("-").isdecimal()]
    return {number - 1 if number > 0 else n_columns + number for number in numbers}
