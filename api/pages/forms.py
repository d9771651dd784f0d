"""The forms of jobs and uploads, made from the descriptions of their fields and options.

A new field or option, or a new choice of one, thus appears by itself. The module also makes an example row for a model,
for the command that the model's page shows.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from streamsvm.reader.options import OPTIONS
from streamsvm.reader.parsers import READERS
from streamsvm.reader.parsers.text.hashed_text import OF_TEXT
from streamsvm.service.jobs.fields.descriptions import FIELDS
from streamsvm.service.jobs.fields.from_text import parse_size
from streamsvm.storage.options import Option, default_words, null_words, plain
from streamsvm.trainer.solvers import SOLVERS

_MOST_COLUMNS = 20  # of a table whose row the command shows: a longer command could not be read
# (option of an input, value) -> words for the value; a value that is missing here is shown as it is.
_WORDS = {
    ("index_base", "auto"): "found out",
    ("label_type", "auto"): "as the first one",
    ("label_type", "number"): "numbers",
    ("label_type", "string"): "strings",
    ("categories", "dictionary"): "a feature each",
    ("missing", "error"): "refused",
    ("missing", "indicator"): "zero, and a feature of their own",
    ("header", "auto"): "found out",
    ("normalize", "none"): "as they are",
    ("normalize", "row_l2"): "divided to length 1",
    ("on_bad_row", "fail"): "refuse the file",
    ("on_bad_row", "skip"): "leave out",
    ("analyzer", "word"): "words",
    ("analyzer", "char"): "characters",
    ("analyzer", "char_wb"): "characters of each word",
    ("on_bad_text", "error"): "an error",
    ("on_bad_text", "replace"): "replace it",
}
_OF_SOME_FORMATS = frozenset().union(*READERS.values())
_KINDS = {bool: "choice", int: "number", float: "number", list: "list"}


@dataclass(frozen=True)
class FormField:
    """
    name, label   name of the job's field, and its label in the form
    meaning       text that is shown beside the field
    kind          how home.js reads the field: "choice", "number", "size" (in MiB), "list", or "words": numbers or words
    choices       (value, words, needs) of each choice
    default       default value as text; "": null
    when_empty    what an empty field means; "" if the field must have a value
    limits        HTML attributes of a number: min, max, step
    needs         JSON: name of another field -> its values for which this field is shown; []: any value
    """

    name: str
    label: str
    meaning: str
    kind: str
    choices: tuple[tuple[str, str, str], ...]
    default: str
    when_empty: str
    limits: dict[str, Any]
    needs: str


@dataclass(frozen=True)
class InputField:
    """
    name, label      name of the input option, and its label in the form
    usual            default of the option, in words
    choices          (value, words) of each value except the default; (): any text
    formats          formats that have the option
    is_of_documents  whether only documents have the option
    is_column        whether the option names a column
    """

    name: str
    label: str
    usual: str
    choices: tuple[tuple[str, str], ...]
    formats: tuple[str, ...]
    is_of_documents: bool
    is_column: bool


def input_fields() -> list[InputField]:
    """Make a field for every option of an input except the format."""
    return [_input_field(option) for option in OPTIONS.values() if option.name != "format"]


def _input_field(option: Option) -> InputField:
    name, usual = option.name, default_words(option)
    words = {value: _WORDS.get((name, value), value) for value in map(str, (usual, *option.choices))}
    return InputField(
        name,
        _label(option),
        words[usual],
        tuple(each for each in words.items() if each[0] != usual) if option.choices else (),
        tuple(key for key, own in READERS.items() if name in own or name not in _OF_SOME_FORMATS),
        name in OF_TEXT,
        name.endswith("_column"),
    )


def _label(option: Option) -> str:
    return option.label or f"{option.name[0].upper()}{option.name[1:].replace('_', ' ')}"


def job_form() -> dict[str, list[FormField]]:
    """Return the fields of the form of a job: part of the form -> fields in it."""
    parts: dict[str, list[FormField]] = {}
    for option in FIELDS.values():
        if option.part is not None:
            parts.setdefault(option.part, []).append(_field(option))
    return parts


def _field(option: Option) -> FormField:
    is_size = option.read is parse_size
    usual = _KINDS.get(getattr(option.kind, "__origin__", option.kind), "words")
    kind = "size" if is_size else "choice" if option.choices else usual
    can_be_empty = option.is_nullable or kind == "list"
    return FormField(
        name=option.name,
        label=_label(option),
        meaning=plain(option.meaning, "empty"),
        kind=kind,
        choices=tuple(_choices(option)),
        default=str(option.default >> 20) if is_size else _value(option.default),
        when_empty=null_words(option) if can_be_empty else "",
        limits={"min": 1, "step": 1} if is_size else _limits(option) if kind == "number" else {},
        needs=json.dumps(option.needs) if option.needs else "",
    )


def _choices(option: Option) -> list[tuple[str, str, str]]:
    if option.kind is bool:
        return [("true", "yes", ""), ("false", "no", "")]
    empty = [("", null_words(option), "")] if option.is_nullable and option.choices else []
    return empty + [(choice, choice.replace("_", " "), _needs_of(option.name, choice)) for choice in option.choices]


def _needs_of(name: str, choice: str) -> str:
    """Write, as JSON, the values of other fields that a choice needs: of a loss, the solvers that have it; else ""."""
    solvers = [solver for solver, known in SOLVERS.items() if choice in known.losses]
    return json.dumps({"solver": solvers}) if name == "loss" else ""


def _limits(option: Option) -> dict[str, Any]:
    named = {"min": option.limits.get("ge"), "max": option.limits.get("le"), "step": 1 if option.kind is int else "any"}
    return {name: limit for name, limit in named.items() if limit is not None}


def _value(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, float):
        return f"{default:g}"
    return "" if default in (None, []) else str(default)


class _Example(NamedTuple):
    """The body of a request for a prediction: its media type, and its text, as a format for the shell's printf."""

    media_type: str
    text: str


def example_of(model: Mapping[str, Any], input_: Mapping[str, Any] | None) -> _Example | None:
    """Make an example row of the kind that the model was trained on; None if it has too many columns to show.

    model   as `model_view` describes it
    input_  `input` of the model, with all columns and words; None: the model was trained on LIBSVM text
    """
    name = input_["format"] if input_ else "libsvm"
    if name == "text":
        return _Example("text/plain", r"a text\nanother\n")
    if input_ and "columns" in input_:
        return _table(input_) if len(input_["columns"]) <= _MOST_COLUMNS else None
    first, last = model["index_base"], model["index_base"] + model["features"] - 1
    features = f"{first}:0.5 {last}:1.2" if last > first else f"{first}:0.5"
    return _Example("text/libsvm", rf"0 {features}\n") if name == "libsvm" else None


def _table(input_: Mapping[str, Any]) -> _Example:
    words = input_.get("dictionary", {})
    row = ",".join(_quoted(next(iter(words.get(column, ())), "0.5")) for column in input_["columns"])
    names = ",".join(map(_quoted, input_["columns"])) + r"\n" if input_["has_names"] else ""
    return _Example("text/csv", rf"{names}{row}\n")


def _quoted(field: str) -> str:
    """Write a field of CSV for the format of printf, in single quotes of a shell."""
    if set(field) & set(',"\r\n'):
        field = '"' + field.replace('"', '""') + '"'
    return field.replace("\\", r"\\").replace("%", "%%").replace("\n", r"\n").replace("\r", r"\r").replace("'", r"'\''")
