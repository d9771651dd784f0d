"""The registry of input formats. A format is one module, and one line here."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import OF_FRAMES, STORED_TABLES, InputOptions
from streamsvm.reader.parsers.label_names import LabelNames
from streamsvm.reader.parsers.libsvm.parser import LibsvmParser
from streamsvm.reader.parsers.matrices.batches import BatchesParser
from streamsvm.reader.parsers.matrices.npz import NpzParser
from streamsvm.reader.parsers.rejected import Rejected
from streamsvm.reader.parsers.strings.fasta import FastaParser
from streamsvm.reader.parsers.strings.strings import is_of_strings
from streamsvm.reader.parsers.tables.csv import CsvParser
from streamsvm.reader.parsers.tables.json_lines import JsonlParser
from streamsvm.reader.parsers.text.options import OF_TEXT
from streamsvm.reader.parsers.text.parser import TextParser
from streamsvm.reader.parsers.text.table import TextTableParser
from streamsvm.reader.parsers.text.tables import ArrowDocuments, JsonDocuments
from streamsvm.storage.rows.csr import Rows


class Parser(Protocol):
    """Reads one input. The attributes are final when all rows have been given out.

    index_base  0 or 1: the number of the first feature
    rows, nnz   numbers of rows and values given out
    max_index   the largest feature number, None if there is no feature
    counters    of oddities that were accepted: blank lines, explicit zeros ...
    rejected    rows that were left out
    input       `Manifest.input`: what further rows need to be read alike; None if features are plain numbers
    """

    @property
    def index_base(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def nnz(self) -> int: ...
    @property
    def max_index(self) -> int | None: ...
    @property
    def counters(self) -> dict[str, int]: ...
    @property
    def rejected(self) -> Rejected: ...
    @property
    def input(self) -> dict[str, Any] | None: ...

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """Yield the rows of the decoded input, which comes in pieces of any size. InputError for its first fault."""


@dataclass(frozen=True)
class Reader:
    """A format.

    open     makes a parser of options, limits, names of labels, number of threads, a directory for temporary files
    options  the InputOptions that this format has and others do not
    """

    open: Callable[[InputOptions, Limits, LabelNames, int, Path], Parser]
    options: frozenset[str]


def _libsvm(options: InputOptions, limits: Limits, names: LabelNames, threads: int, _scratch: Path) -> Parser:
    _refuse_names(options, names)
    return LibsvmParser(options.index_base, limits, threads, skip=options.on_bad_row == "skip")


def _csv(options: InputOptions, limits: Limits, names: LabelNames, threads: int, _scratch: Path) -> Parser:
    if options.text_column is not None:
        return TextTableParser(options, limits, names, threads)
    _refuse_kind(options)
    return CsvParser(options, limits, names)


def _jsonl(options: InputOptions, limits: Limits, names: LabelNames, threads: int, _scratch: Path) -> Parser:
    if options.text_column is not None:
        return JsonDocuments(options, limits, names, threads)
    _refuse_kind(options)
    return JsonlParser(options, limits, names)


def _stored_table(options: InputOptions, limits: Limits, names: LabelNames, threads: int, scratch: Path) -> Parser:
    format_ = options.format
    # pyarrow is slow to import.
    from streamsvm.reader.parsers.tables.arrow_table import ArrowTableParser  # noqa: PLC0415
    from streamsvm.reader.parsers.tables.stored import reads  # noqa: PLC0415

    if options.text_column is not None:
        return ArrowDocuments(options, limits, reads(format_, scratch, limits), names, threads)
    _refuse_kind(options)
    return ArrowTableParser(options, limits, reads(format_, scratch, limits), names)


def _arrow_stream(options: InputOptions, limits: Limits, names: LabelNames, _threads: int, _scratch: Path) -> Parser:
    from streamsvm.reader.parsers.tables.arrow_table import ArrowTableParser  # noqa: PLC0415
    from streamsvm.reader.parsers.tables.stored import streamed  # noqa: PLC0415

    if options.text_column is not None:
        hint = "write the documents to a file of CSV or Parquet and give its path"
        raise InputError("option_unused", "text_column is no option of a data frame", hint=hint)
    _refuse_kind(options)
    parser = ArrowTableParser(options, limits, streamed, names)
    parser.has_lines = False  # a program's table has no lines
    return parser


def _npz(options: InputOptions, limits: Limits, names: LabelNames, _threads: int, scratch: Path) -> Parser:
    _refuse_names(options, names)
    return NpzParser(options, limits, scratch)


def _batches(options: InputOptions, limits: Limits, names: LabelNames, _threads: int, _scratch: Path) -> Parser:
    _refuse_names(options, names)
    return BatchesParser(options, limits)


def _fasta(options: InputOptions, limits: Limits, names: LabelNames, _threads: int, _scratch: Path) -> Parser:
    if options.like is not None and not is_of_strings(options.like):
        raise InputError("input_mismatch", "these rows are strings, the dataset's are not")
    if options.given & _NOT_OF_STRINGS:
        raise InputError("option_unused", f"{min(options.given & _NOT_OF_STRINGS)} is no option of strings")
    return FastaParser(options, limits, names)


def _refuse_kind(options: InputOptions) -> None:
    """InputError if options for words are given for a dataset of numbers, or options of numbers for strings."""
    if options.like == {} and options.given & _MIXED:
        raise InputError("input_mismatch", "the dataset was made of numbers only")
    if options.string_column and options.given & _NOT_OF_STRINGS:
        raise InputError("option_unused", f"{min(options.given & _NOT_OF_STRINGS)} is no option of strings")


def _text(options: InputOptions, limits: Limits, names: LabelNames, threads: int, _scratch: Path) -> Parser:
    return TextParser(options, limits, names, threads)


def _refuse_names(options: InputOptions, names: LabelNames) -> None:
    if names.type == "string":
        raise InputError("label_type", f"labels of this dataset are strings, those of {options.format} are numbers")


_ASIDE = frozenset({"label_column", "label_type", "weight_column", "group_column"})
_CHOICE = frozenset({"columns", "drop_columns"})
_MIXED = frozenset({"string_column", "categorical", "categories", "missing"})
_NOT_OF_STRINGS = {"index_base", "n_features", "normalize", "categorical", "categories", "missing", *_CHOICE}
_TABLE = _ASIDE | _CHOICE | _MIXED | OF_TEXT | {"text_column"}

READERS = {
    "libsvm": Reader(_libsvm, frozenset()),
    "csv": Reader(_csv, _TABLE | {"delimiter", "header", "decimal", "encoding"}),
    "tsv": Reader(_csv, _TABLE | {"header", "decimal", "encoding"}),
    "jsonl": Reader(_jsonl, _TABLE),
    **dict.fromkeys(STORED_TABLES, Reader(_stored_table, _TABLE)),
    "npz": Reader(_npz, frozenset()),
    "batches": Reader(_batches, frozenset()),
    "fasta": Reader(_fasta, frozenset({"label_type"})),
    "dna": Reader(_fasta, frozenset({"label_type"})),
    "text": Reader(_text, OF_TEXT | {"label_type"}),
}

# Programs on this machine write these formats for each other; files and uploads cannot have them.
OF_PROGRAMS = {OF_FRAMES: Reader(_arrow_stream, _TABLE | {"header"})}

_OF_SOME = frozenset().union(*(reader.options for reader in READERS.values()))


def open_parser(options: InputOptions, limits: Limits, names: LabelNames, threads: int, scratch: Path) -> Parser:
    """Open the parser for options.format. InputError option_unused for an option that the format does not have."""
    reader = READERS.get(options.format) or OF_PROGRAMS[options.format]
    unused = (options.given & _OF_SOME) - reader.options
    if unused:
        raise InputError("option_unused", f"{min(unused)} is no option of {options.format}")
    of_text = options.given & OF_TEXT
    if of_text and options.format != "text" and options.text_column is None:
        raise InputError("option_unused", f"{min(of_text)} is an option of documents: set text_column")
    if options.text_column is not None and options.given & _CHOICE:
        raise InputError(
            "option_unused", f"{min(options.given & _CHOICE)} is no option of documents: text_column names theirs"
        )
    return reader.open(options, limits, names, threads, scratch)
