"""The registry of input formats: each format's options and its parser."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import OF_FRAMES, STORED_TABLES, TABLES, InputOptions
from streamsvm.reader.parsers.base import Parser
from streamsvm.reader.parsers.fasta import FastaParser, is_of_strings
from streamsvm.reader.parsers.libsvm import LibsvmParser
from streamsvm.reader.parsers.matrices import BatchesParser, NpzParser
from streamsvm.reader.parsers.streams import Scratch
from streamsvm.reader.parsers.tables.csv import CsvParser
from streamsvm.reader.parsers.tables.json_lines import JsonlParser
from streamsvm.reader.parsers.tables.matching import ToPredict
from streamsvm.reader.parsers.text.hashed_text import OF_TEXT
from streamsvm.reader.parsers.text.parser import TextParser
from streamsvm.reader.parsers.text.tables import TextTableParser
from streamsvm.reader.parsers.values import LabelNames

_ASIDE = frozenset({"label_column", "label_type", "weight_column", "group_column"})
_CHOICE = frozenset({"columns", "drop_columns"})
_MIXED = frozenset({"string_column", "categorical", "categories", "missing"})
_NOT_OF_STRINGS = {"index_base", "n_features", "normalize", "categorical", "categories", "missing", *_CHOICE}
_TABLE = _ASIDE | _CHOICE | _MIXED | OF_TEXT | {"text_column"}

_NUMBERED = ("libsvm", "npz", "batches")

# format -> names of its options, but those that every format has
READERS: dict[str, frozenset[str]] = {
    "libsvm": frozenset(),
    "csv": _TABLE | {"delimiter", "header", "decimal", "encoding"},
    "tsv": _TABLE | {"header", "decimal", "encoding"},
    "jsonl": _TABLE,
    **dict.fromkeys(STORED_TABLES, _TABLE),
    "npz": frozenset(),
    "batches": frozenset(),
    "fasta": frozenset({"label_type"}),
    "dna": frozenset({"label_type"}),
    "text": OF_TEXT | {"label_type"},
}

# Formats in which programs on this machine pass data to each other; files and uploads cannot have these formats.
OF_PROGRAMS = {OF_FRAMES: _TABLE | {"header"}}

_OF_SOME = frozenset().union(*READERS.values())


def open_parser(
    options: InputOptions, limits: InputLimits, names: LabelNames, threads: int, scratch: Scratch
) -> Parser:
    """Return a parser of rows for a dataset. Raises InputError option_unused, label_type, input_mismatch."""
    _check(options, names)
    return parser_of(options, limits, names, threads, scratch)


def parser_of(
    options: InputOptions,
    limits: InputLimits,
    names: LabelNames | None,
    threads: int,
    scratch: Scratch,
    to_predict: ToPredict | None = None,
    read: Callable[[Iterable[bytes]], Iterator[Any]] | None = None,
) -> Parser:
    """Return the parser for options.format.

    names       assigns numbers to labels that are strings; None: the parser makes its own `LabelNames`, if it needs one
    scratch     stores an input that needs random access, see `spool`
    to_predict  finds labels and columns of rows to predict; None: the rows make a dataset
    read        yields the tables (`stored.StoredTable`) of an input that pyarrow reads; None: by options.format
    """
    format_, is_labelled, is_text = options.format, to_predict is None, options.text_column is not None
    if format_ == "libsvm":
        return LibsvmParser(options, limits, threads, labelled=is_labelled)
    if format_ == "npz":
        return NpzParser(options, limits, scratch, labelled=is_labelled)
    if format_ == "batches":
        return BatchesParser(options, limits)
    if format_ in ("fasta", "dna"):
        return FastaParser(options, limits, names, labelled=is_labelled)
    if format_ == "text":
        return TextParser(options, limits, names, to_predict, threads)
    if format_ in ("csv", "tsv"):
        return (TextTableParser if is_text else CsvParser)(options, limits, names, to_predict, threads)
    if format_ == "jsonl":
        return JsonlParser(options, limits, names, to_predict, threads)
    # pyarrow is slow to import.
    from streamsvm.reader.parsers.tables.arrow import ArrowTableParser  # noqa: PLC0415
    from streamsvm.reader.parsers.tables.stored import reads, streamed  # noqa: PLC0415

    read = read or (streamed if format_ == OF_FRAMES else reads(format_, scratch, limits))
    parser = ArrowTableParser(options, limits, read, names, to_predict, threads)
    parser.has_lines = not (is_labelled and format_ == OF_FRAMES)  # a program's table has no lines
    return parser


def _check(options: InputOptions, names: LabelNames) -> None:
    """Raise InputError if options or the type of labels contradict the format, each other, or the dataset's rows."""
    format_, given, is_text = options.format, options.given, options.text_column is not None
    if unused := (given & _OF_SOME) - (READERS | OF_PROGRAMS)[format_]:
        raise InputError("option_unused", f"{min(unused)} is no option of {format_}")
    if (of_text := given & OF_TEXT) and format_ != "text" and not is_text:
        raise InputError("option_unused", f"{min(of_text)} is an option of documents: set text_column")
    if is_text and (choice := given & _CHOICE):
        raise InputError("option_unused", f"{min(choice)} is no option of documents: text_column names theirs")
    if is_text and format_ == OF_FRAMES:
        hint = "write the documents to a file of CSV or Parquet and give its path"
        raise InputError("option_unused", "text_column is no option of a data frame", hint=hint)
    if format_ in _NUMBERED and names.type == "string":
        raise InputError("label_type", f"labels of this dataset are strings, those of {format_} are numbers")
    is_fasta = format_ in ("fasta", "dna")
    if is_fasta and options.like is not None and not is_of_strings(options.like):
        raise InputError("input_mismatch", "these rows are strings, the dataset's are not")
    is_table = format_ in (*TABLES, OF_FRAMES) and not is_text
    if is_table and options.like == {} and given & _MIXED:
        raise InputError("input_mismatch", "the dataset was made of numbers only")
    if (is_fasta or (is_table and options.string_column)) and (unfit := given & _NOT_OF_STRINGS):
        raise InputError("option_unused", f"{min(unfit)} is no option of strings")
