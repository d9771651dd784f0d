"""The fields of the upload form, made of the reader's options: a new option, or a new choice, is there at once."""

from dataclasses import dataclass, fields
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from streamsvm.reader.options import OPTIONS, InputOptions
from streamsvm.reader.parsers import READERS
from streamsvm.reader.parsers.text.options import OF_TEXT

# (label, default in words); an option that is missing here has its name as label.
_TEXTS = {
    "label_column": ("Label column", "found out"),
    "label_type": ("Labels are", "as the first one"),
    "weight_column": ("Weight column", "none"),
    "group_column": ("Group column", "none"),
    "string_column": ("Column of strings of bases", "none"),
    "columns": ("Columns that make features", "all that are left"),
    "drop_columns": ("Columns left out", "none"),
    "categorical": ("Columns of categories", "none; names, or all"),
    "categories": ("Categories are", "a feature each"),
    "missing": ("Missing values are", "refused"),
    "text_column": ("Column of documents", "none"),
    "analyzer": ("N-grams of", "words"),
    "ngram_range": ("Least, most n", "1,1"),
    "alternate_sign": ("Half of them count -1", "yes"),
    "lowercase": ("In lower case", "yes"),
    "on_bad_text": ("What is no UTF-8", "an error"),
    "n_features": ("Features", "as many as come; of documents 1048576"),
    "index_base": ("First feature is number", "found out"),
    "delimiter": ("Delimiter", "found out"),
    "header": ("First line names columns", "found out"),
    "normalize": ("Rows", "as they are"),
    "on_bad_row": ("Rows that cannot be read", "refuse the file"),
    "shuffle": ("Shuffle rows", "yes"),
}
_CHOICES = {
    ("label_type", "number"): "numbers",
    ("label_type", "string"): "strings",
    ("missing", "indicator"): "zero, and a feature of their own",
    ("analyzer", "char"): "characters",
    ("analyzer", "char_wb"): "characters of each word",
    ("on_bad_text", "replace"): "replace it",
    ("normalize", "row_l2"): "divided to length 1",
    ("on_bad_row", "skip"): "leave out",
}
_OF_SOME = frozenset().union(*(reader.options for reader in READERS.values()))


@dataclass(frozen=True)
class InputField:
    """
    name, label      of the option
    usual            its default, in words
    choices          (value, words) of each other value; (): any text
    formats          formats that have the option
    is_of_documents  whether only documents have it
    is_column        whether it names a column
    """

    name: str
    label: str
    usual: str
    choices: tuple[tuple[str, str], ...]
    formats: tuple[str, ...]
    is_of_documents: bool
    is_column: bool


def input_fields() -> list[InputField]:
    """A field for every option but the format: those in _TEXTS first, in that order."""
    hints = get_type_hints(InputOptions)
    places = {name: place for place, name in enumerate(_TEXTS)}
    found = [_field(field.name, field.default, hints[field.name]) for field in fields(InputOptions)]
    named = (field for field in found if field.name in OPTIONS and field.name != "format")
    return sorted(named, key=lambda field: places.get(field.name, len(places)))


def _field(name: str, default: Any, hint: Any) -> InputField:
    label, usual = _TEXTS.get(name, (name.replace("_", " ").capitalize(), "none" if default is None else str(default)))
    left_out = default or ("word" if name == "analyzer" else "yes")
    words = [str(value) for value in _literals(hint) if value != left_out]
    formats = tuple(format_ for format_, reader in READERS.items() if name in reader.options or name not in _OF_SOME)
    choices = tuple((value, _CHOICES.get((name, value), value)) for value in words)
    return InputField(name, label, usual, choices, formats, name in OF_TEXT, name.endswith("_column"))


def _literals(hint: Any) -> tuple[Any, ...]:
    kinds = (hint, *get_args(hint))
    return next((get_args(kind) for kind in kinds if kind is not NoneType and get_origin(kind) is Literal), ())
