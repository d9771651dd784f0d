"""The formats of rows to predict, with their parsers."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import OF_FRAMES, STORED_TABLES, InputOptions
from streamsvm.reader.parsers import Parser
from streamsvm.reader.parsers.beside import Beside
from streamsvm.reader.parsers.libsvm.parser import LibsvmParser
from streamsvm.reader.parsers.matrices.npz import NpzParser
from streamsvm.reader.parsers.spool import Scratch
from streamsvm.reader.parsers.strings.fasta import FastaParser
from streamsvm.reader.parsers.strings.strings import is_of_strings
from streamsvm.reader.parsers.tables.csv import CsvParser
from streamsvm.reader.parsers.tables.json_lines import JsonlParser
from streamsvm.reader.parsers.tables.to_predict import ToPredict
from streamsvm.reader.parsers.text.parser import TextParser
from streamsvm.reader.parsers.text.table import TextTableParser
from streamsvm.reader.parsers.text.tables import ArrowDocuments, JsonDocuments
from streamsvm.storage.models.model_file import Label

# Makes a parser; the labels are the model's classes.
ParserMaker = Callable[[InputOptions, Limits, Sequence[Label]], Parser]


def check_kind(input: dict[str, Any] | None, format_: str) -> None:
    """Raise InputError input_mismatch if a model with this `input` cannot take rows of this format."""
    if is_of_strings(input):
        if format_ == "libsvm":
            raise InputError("input_mismatch", "the model takes strings of bases", hint="send FASTA")
    elif format_ == "fasta":
        raise InputError("input_mismatch", "the model takes no strings", hint="send rows as it was trained on")


def table_parser(
    options: InputOptions, limits: Limits, classes: Sequence[Label], beside: Beside | None = None
) -> Parser:
    """The parser of CSV, TSV or JSON lines to predict; `beside` takes further columns."""
    is_json, to_predict = options.format == "jsonl", ToPredict(classes, beside)
    if options.text_column is not None:
        return (JsonDocuments if is_json else TextTableParser)(options, limits, to_predict=to_predict)
    return (JsonlParser if is_json else CsvParser)(options, limits, to_predict=to_predict)


def arrow_parser(
    options: InputOptions,
    limits: Limits,
    classes: Sequence[Label],
    read: Callable[[Iterable[bytes]], Iterator[Any]],
    beside: Beside | None = None,
    first_row: int = 1,
) -> Parser:
    """The parser of tables that `read` makes, which puts further columns into `beside`.

    first_row  number of the first row, for faults
    """
    from streamsvm.reader.parsers.tables.arrow_table import ArrowTableParser  # noqa: PLC0415 - slow to import

    kind, *more = (ArrowTableParser,) if options.text_column is None else (ArrowDocuments, 1)
    parser = kind(options, limits, read, None, *more, ToPredict(classes, beside))
    parser.first_row = first_row
    return parser


def _arrow_stream(options: InputOptions, limits: Limits, classes: Sequence[Label]) -> Parser:
    from streamsvm.reader.parsers.tables.stored import streamed  # noqa: PLC0415

    return arrow_parser(options, limits, classes, streamed)


def _stored_table(scratch: Scratch, options: InputOptions, limits: Limits, classes: Sequence[Label]) -> Parser:
    from streamsvm.reader.parsers.tables.stored import reads  # noqa: PLC0415

    return arrow_parser(options, limits, classes, reads(options.format, scratch, limits))


def _npz(scratch: Scratch, options: InputOptions, limits: Limits, _classes: Sequence[Label]) -> Parser:
    return NpzParser(options, limits, scratch, labelled=False)


def stored_formats(scratch: Scratch) -> dict[str, ParserMaker]:
    """The formats that are not read from front to back, which are stored in `scratch` first."""
    return {**dict.fromkeys(STORED_TABLES, partial(_stored_table, scratch)), "npz": partial(_npz, scratch)}


# format -> a function that makes its parser.
FORMATS: dict[str, ParserMaker] = {
    "libsvm": lambda options, limits, _: LibsvmParser(options.index_base, limits, weighted=False),
    "csv": table_parser,
    "tsv": table_parser,
    "jsonl": table_parser,
    **stored_formats(Path(tempfile.gettempdir())),
    "fasta": lambda options, limits, _: FastaParser(options, limits, labelled=False),
    "text": lambda options, limits, classes: TextParser(options, limits, to_predict=ToPredict(classes)),
}
# Formats that programs on this machine write for each other.
OF_PROGRAMS: dict[str, ParserMaker] = {OF_FRAMES: _arrow_stream}
