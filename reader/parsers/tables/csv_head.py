"""Rewrites CSV as its parser reads it, and decides whether the first line names the columns.

The parser reads UTF-8 with one character between fields, and decimal points. If the first line may be names or a row,
the input is refused instead of guessing.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.columns import LABEL_NAMES, is_place, listed
from streamsvm.reader.parsers.tables.fields import decoded, is_missing, is_text
from streamsvm.reader.parsers.tables.mixed_columns import ALL, ASIDE
from streamsvm.reader.parsers.values import NUMBER

_NO_ENCODING = "leave encoding out if the text is in UTF-8, else write it in UTF-8"
_BLANKS = re.compile(rb'("[^"\n]*")|[ \t]+')
_ENDS = re.compile(rb"^ | (?=\r?$)", re.MULTILINE)
_DELIMITER = re.compile(rb"[,;|\t:]")
# A number with a decimal comma; it is the whole field.
_DECIMAL = re.compile(rb'((?:^|[;|\t"])[ ]*[+-]?\d*),(?=\d+(?:[eE][+-]?\d+)?[ ]*(?:[;|\t"\r]|$))', re.MULTILINE)
LOOK_LINES = 100  # most lines below the first that are read to decide
_LINES_TO_BE_SURE = 10  # if as many lines have no word of the first line, its words are names
_FIELDS_TO_BE_SURE = 3  # fewer fields that count up may be a row
_WORDS_FOR_LABELS = frozenset(LABEL_NAMES) - {"y"}  # "y" is a value, too

Line = Sequence[bytes]
LookBelow = Callable[[], Sequence[Line]]


def has_header(first: Line, look_below: LookBelow, options: InputOptions, labelled: bool) -> bool:
    """Return whether the line `first` names the columns. Raises InputError header_unclear if it may be names or a row.

    The line names the columns if an option or the dataset has one of its names, or if text stands in a column that can
    have no text, or above a number. Numbers are names if they count up, as pandas writes them, and fractions stand
    below them, or an index of pandas beside them.

    look_below  returns up to LOOK_LINES lines below `first` that have as many fields; called only if they decide
    """
    if options.header != "auto":
        return options.header == "yes"
    if _has_known_name(first, options):
        return True
    texts = {place for place, field in enumerate(first) if is_text(field)}
    like = options.like or {}
    if (like or options.trained or {}).get("has_names"):
        return all(place in texts or is_missing(field) for place, field in enumerate(first))
    if not texts:
        # A row to be predicted is not taken for names because it counts up from 1 or so; pandas counts from 0.
        return "columns" not in like and (labelled or first[0] in (b"", b"0")) and _are_counted(first, look_below)
    below = look_below()
    # Without an option, columns of words are categories; but a line of words that is alone names columns.
    may_be_categories = bool(below) and options.categorical is None and options.like is None
    if not may_be_categories and not texts <= _places_of_text(options, labelled, len(first)):
        return True
    if _stand_above_numbers(texts, below):
        return True
    numbers = [field for place, field in enumerate(first) if place not in texts and not is_missing(field)]
    if numbers:
        others = [[field for place, field in enumerate(line) if place not in texts] for line in below]
        return len(numbers) > 1 and _are_counted(numbers, lambda: others)
    return _are_words_names(first, below, is_further="columns" in like)


def documents_have_header(first: Line, below: Sequence[Line], options: InputOptions, labelled: bool) -> bool:
    """Return whether the first line of a table of documents names its columns.

    If an option names a column, or labels are found by name, the line has to have such a name. If options have only
    numbers of columns, it names the columns if text stands above a number. Recurring words prove nothing in documents.
    """
    if options.header != "auto":
        return options.header == "yes"
    wanted = (options.text_column, options.label_column, options.weight_column, options.group_column)
    finds_label = labelled and options.label_column is None
    if finds_label or any(name is not None and not is_place(name) for name in wanted):
        usual = LABEL_NAMES if finds_label else ()
        return _has_known_name(first, options) or any(_text(field).lower() in usual for field in first)
    return _stand_above_numbers({place for place, field in enumerate(first) if is_text(field)}, below)


def _text(field: bytes) -> str:
    return field.decode(errors="replace")


def _has_known_name(first: Line, options: InputOptions) -> bool:
    """Return whether `first` has a column name of an option or the dataset. Names that are numbers must all be in it.

    Raises InputError header_unclear if it has all names of the dataset, but these are few numbers.
    """
    names = set(decoded(first))
    like = options.like or {}
    before = set(like["columns"]) if like.get("has_names") else set()
    aside = {like.get(option) for option in ASIDE if before}
    single = [options.text_column, options.string_column, *(getattr(options, option) for option in ASIDE)]
    several = [each for each in (options.categorical, options.columns, options.drop_columns) if each]
    given = {name for name in (*single, *(name for each in several for name in listed(each))) if name}
    known = {*(name for name in given if not is_place(name)), *before, *aside} & names
    if any(is_text(name.encode()) for name in known):
        return True
    if before and before <= names and len(before) < _FIELDS_TO_BE_SURE:
        raise _unclear("numbers, as columns are called,")
    return bool(before) and before <= names


def _places_of_text(options: InputOptions, labelled: bool, n_columns: int) -> set[int]:
    """Return the positions of the columns that may hold text in a table without names."""
    like = options.like or {}
    label = options.label_column or like.get("label_column") or ("1" if labelled else None)
    if options.categorical == ALL or (like.get("categorical") and n_columns != like["n_columns"]):
        return set(range(n_columns))
    words = like["categorical"] if "columns" in like else listed(options.categorical or "")
    texts = [options.group_column, options.string_column, *words, None if options.label_type == "number" else label]
    numbers = [int(wanted) for wanted in texts if wanted is not None and is_place(wanted)]
    return {number - 1 if number > 0 else n_columns + number for number in numbers}


def _stand_above_numbers(places: set[int], below: Sequence[Line]) -> bool:
    return bool(below) and any(NUMBER.fullmatch(below[0][place]) is not None for place in places)


def _are_counted(first: Line, look_below: LookBelow) -> bool:
    """Return whether the numbers `first` are names: they count up, above fractions or beside an index of pandas.

    Raises InputError header_unclear.
    """
    has_index = len(first) > 1 and not first[0]
    fields = first[1:] if has_index else first
    if not all(field.isdigit() and field.isascii() for field in fields) or len(fields) < 1 + (not has_index):
        return False
    begin = int(fields[0][:20])
    if [int(field[:20]) for field in fields] != list(range(begin, begin + len(fields))):
        return False
    if has_index:
        return begin == 0
    if begin and len(fields) <= _FIELDS_TO_BE_SURE:
        return False
    if len(fields) >= _FIELDS_TO_BE_SURE:
        points = (field for line in look_below() for field in line if b"." in field and NUMBER.fullmatch(field))
        if any(not float(field).is_integer() for field in points):
            return True
    raise _unclear("numbers that count up")


def _are_words_names(first: Line, below: Sequence[Line], is_further: bool) -> bool:
    """Return whether words above words are names of columns: unlike names, values occur again in the lines below.

    is_further: the rows must fit a dataset or model without names. Raises InputError header_unclear.
    """
    words = [_text(field).lower() for field in first if not is_missing(field)]
    if len(set(words)) < len(words):
        return False
    values = [{_text(line[place]).lower() for line in below} for place in range(len(first))]
    named = [place for place, field in enumerate(first) if _text(field).lower() in _WORDS_FOR_LABELS]
    if named:
        return not any(_text(first[place]).lower() in values[place] for place in named)
    if any(_text(field).lower() in below_it for field, below_it in zip(first, values, strict=True) if field):
        return False
    if not below:
        return not is_further
    if len(below) >= _LINES_TO_BE_SURE:
        return True
    raise _unclear("words, as the lines below it are,")


def _unclear(what: str) -> InputError:
    return InputError("header_unclear", f"the first line has {what} and may name the columns, or be a row", line=1)


def rewritten(chunks: Iterable[bytes], options: InputOptions, has_blanks: bool) -> Iterable[bytes]:
    """Rewrite a text in UTF-8 with decimal points; has_blanks: replace the blanks between two fields by one space."""
    if options.encoding == "windows-1252":
        chunks = _decoded(chunks)
    if has_blanks:
        chunks = _by_lines(chunks, _squeezed)
    if options.decimal == "comma":
        chunks = _by_lines(chunks, lambda lines: _DECIMAL.sub(rb"\1.", lines))
    return chunks


def stands_between_blanks(first: bytes, option: str | None) -> bool:
    """Return whether blanks separate fields: by the option, or if the first line has several words and no delimiter."""
    if option is not None:
        return option in ("space", " ")
    return len(first.split()) > 1 and _DELIMITER.search(first) is None and b'"' not in first


def _decoded(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        try:
            yield chunk.decode("cp1252").encode()
        except UnicodeDecodeError as error:
            raise InputError("not_text", "the text is not Windows-1252", hint=_NO_ENCODING) from error


def _squeezed(lines: bytes) -> bytes:
    return _ENDS.sub(b"", _BLANKS.sub(lambda found: found[1] or b" ", lines))


def _by_lines(chunks: Iterable[bytes], change: Callable[[bytes], bytes]) -> Iterator[bytes]:
    """Apply `change` to the whole lines in each chunk; a line that a chunk cuts goes with the next chunk."""
    rest = b""
    for chunk in chunks:
        lines, end, rest = (rest + chunk).rpartition(b"\n")
        if end:
            yield change(lines) + end
    if rest:
        yield change(rest)
