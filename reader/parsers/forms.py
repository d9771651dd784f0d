"""Decides how a file is read: by the options, else by its content, else as the training file was read.

File name extensions are ignored. The entry `form` of `Manifest.input` has the options, by name, that the content of the
training file did not show. A file to predict is read as that file was; predictions are compared with its labels.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import OTHER_NAMES, TABLES, InputOptions
from streamsvm.reader.parsers import READERS, sniff
from streamsvm.reader.parsers.sniff import has_pairs, lines_of, most, recognise
from streamsvm.reader.parsers.tables.columns import MOST_COLUMNS, is_place
from streamsvm.reader.parsers.tables.fields import (
    DELIMITERS,
    BadQuote,
    FieldReader,
    decoded,
    find_delimiter,
    is_text,
)
from streamsvm.reader.parsers.values import NUMBER

_WRITTEN = ("delimiter", "decimal", "encoding")  # options that say how CSV is written
_OF_TABLES = READERS["csv"] - READERS["text"]
Input = dict[str, Any]
Classes = Sequence[float | str]


def form_of(options: InputOptions, input_: Input) -> Input:
    """Return {"form": ...}, an entry of `Manifest.input`: the dataset's, or by the options; {} if it has no option."""
    names = _WRITTEN if "columns" in input_ else (*_WRITTEN, "header")  # a table's `input` has "has_names"
    written = replace(options, delimiter="tab") if options.format == "tsv" else options
    here = {name: getattr(written, name) for name in names if name in written.given}
    form = options.like.get("form") if options.like else here
    return {"form": form} if form else {}


def settled(
    options: InputOptions, head: bytes, input_: Input | None = None, classes: Classes | None = None
) -> InputOptions:
    """Complete the options by the format, delimiter and the like of an input whose first PEEK_BYTES are `head`.

    input_   `Manifest.input` of the dataset or model that the rows must fit; None: the rows make a new dataset
    classes  labels of the model that predicts the rows; () in regression; None: the rows are not predicted
    """
    if options.format == "auto":
        is_further = input_ is not None and (classes is not None or input_.get("format") == "text")
        format_ = _of_further(head, options, input_ or {}) if is_further else _of_new(head, options)
        options = replace(options, format=format_)
    options = replace(options, format=OTHER_NAMES.get(options.format, options.format))
    if options.format == "text" and options.label_column == "1" and classes is None:
        options = replace(options, label_column=None)  # a document's line begins with its label
    if input_ is None:
        return options
    options = _as_written(options, head, input_)
    if input_.get("format") != "text":
        return options
    if options.format == "text":
        is_labelled = classes is not None and options.label_column is None and _are_labelled(head, classes)
        return replace(options, text_column=None, label_column="1" if is_labelled else options.label_column)
    if options.format in TABLES:
        return replace(options, text_column=options.text_column or input_.get("text_column") or "text")
    return options


def _of_new(head: bytes, options: InputOptions) -> str:
    """Return the format of a new dataset's input. Lines like documents are CSV only if an option of tables is given."""
    format_ = recognise(head)
    if options.text_column is not None:
        return "csv" if format_ == "libsvm" else format_
    return "text" if format_ == "csv" and not options.given & _OF_TABLES and sniff.has_documents(head) else format_


def _of_further(head: bytes, options: InputOptions, input_: Input) -> str:
    """Return the format of rows to predict, or of documents that are added to a dataset."""
    kind, is_table = input_.get("format"), "columns" in input_
    if (stored := sniff.stored_format(head)) is not None:
        return stored
    if kind in ("text", "fasta"):
        return _of_lines(head, options, input_, kind)
    format_ = recognise(head)
    if format_ != "libsvm" or (has_pairs(head) and not input_.get("categorical")):
        return format_
    # Each line is one word: a LIBSVM row without features, or a table of one column.
    return "csv" if is_table or options.given & _OF_TABLES or input_.get("n_features") == 1 else "libsvm"


def _of_lines(head: bytes, options: InputOptions, input_: Input, kind: str) -> str:
    """Return `kind` ("text" or "fasta") if each line is a document or string; "csv" or "jsonl" if a column has them."""
    option, usual = {"text": ("text_column", "text"), "fasta": ("string_column", "")}[kind]
    given, trained = getattr(options, option), input_.get(option)
    if not (column := given or trained or usual):
        return kind
    lines = lines_of(head)
    if sniff.has_objects(head):
        return "jsonl" if given or f'"{column}"'.encode() in lines[0] else kind
    fields, delimiter = _first_fields(lines, options, input_)
    is_divided = len(fields) > 1 and most([delimiter in line for line in lines])
    are_names = len(set(fields)) == len(fields) and all(len(field) <= 64 and b" " not in field for field in fields)
    is_named = column.encode() in fields and bool(trained or (is_divided and are_names))
    return "csv" if given or is_named or (trained and is_place(column) and is_divided) else kind


def _first_fields(lines: Sequence[bytes], options: InputOptions, input_: Input) -> tuple[list[bytes], bytes]:
    """Return the first line's fields, [] if it has none, and the delimiter: option, else training's, else a guess."""
    first = next(iter(lines), b"")
    given = "tab" if options.format == "tsv" else options.delimiter
    for wanted in (given, input_.get("form", {}).get("delimiter"), None):
        with suppress(InputError, BadQuote):
            delimiter = find_delimiter(first, wanted, may_be_one=wanted is None)
            return [field for _, field in FieldReader(delimiter).split(first, MOST_COLUMNS)], delimiter
    return [], b","


def _as_written(options: InputOptions, head: bytes, input_: Input) -> InputOptions:
    """Return the options of CSV, completed by those of the training file that do not contradict this file's content."""
    form, is_unnamed = input_.get("form", {}), input_.get("has_names") is False
    if options.format not in ("csv", "tsv") or not (form or is_unnamed):
        return options
    fields, delimiter = _first_fields(lines := lines_of(head), options, input_)
    trained = form.get("delimiter", "")
    differs = {
        "delimiter": options.format == "tsv" or DELIMITERS.get(trained, trained).encode() != delimiter,
        "decimal": delimiter == b",",
        "encoding": not head.isascii() and "\ufffd" not in b"\n".join(lines).decode(errors="replace"),
    }
    known = {name: each for name, each in form.items() if not differs.get(name)}
    words = set().union(*input_.get("dictionary", {}).values()) if is_unnamed else set()
    if is_unnamed and any(field in words or not is_text(field.encode()) for field in decoded(fields) if field):
        known["header"] = "no"
    return replace(options, **{name: each for name, each in known.items() if name not in options.given})


def _are_labelled(head: bytes, classes: Classes) -> bool:
    """Return whether most lines are a label (a class of the model; in regression any number), a tab and a document."""
    known = frozenset(classes)
    labels = [line.partition(b"\t")[0].strip(b" ") if b"\t" in line else b"" for line in lines_of(head)]
    numbers = [float(label) if NUMBER.fullmatch(label) else None for label in labels]
    texts = zip(numbers, decoded(labels), strict=True)
    return most([text in known or number in known or (not known and number is not None) for number, text in texts])
