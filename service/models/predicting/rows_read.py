"""The text formats of rows to predict, with their parsers."""

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers import Parser
from streamsvm.reader.parsers.libsvm.parser import LibsvmParser
from streamsvm.reader.parsers.matrices.npz import NpzParser
from streamsvm.reader.parsers.sniff import NPZ, PARQUET, has_pairs, recognise
from streamsvm.reader.parsers.strings.fasta import FastaParser
from streamsvm.reader.parsers.tables.csv_to_predict import CsvToPredict
from streamsvm.reader.parsers.text.parser import TextParser
from streamsvm.reader.parsers.text.table import TextTableParser
from streamsvm.storage.models.model_file import Label


def format_of_name(file: Path, otherwise: str) -> str:
    """The format that the endings of a file name mean, such as rows.csv or rows.tsv.gz; else `otherwise`."""
    if {".fa", ".fna"} & set(file.suffixes):
        return "fasta"
    return next((name for name in TEXT_FORMATS if f".{name}" in file.suffixes), otherwise)


def format_of_head(head: bytes, usual: str) -> str:
    """The format of an input that begins with `head`; usual: that of the model's text, "auto" is CSV or LIBSVM text."""
    if head.startswith(PARQUET):
        return "parquet"
    if head.startswith(NPZ):
        return "npz"
    if usual == "auto":
        return "libsvm" if has_pairs(head) else "csv"
    return "csv" if usual == "libsvm" and recognise(head) == "csv" else usual


def _table(options: InputOptions, limits: Limits, classes: Sequence[Label]) -> Parser:
    if options.text_column is not None:
        return TextTableParser(options, limits, labelled=False)
    return CsvToPredict(options, limits, classes)


def _arrow(options: InputOptions, limits: Limits, classes: Sequence[Label]) -> Parser:
    # pyarrow is an extra, and slow to import.
    from streamsvm.reader.parsers.tables.arrow import arrow_tables  # noqa: PLC0415
    from streamsvm.reader.parsers.tables.arrow_to_predict import ArrowToPredict  # noqa: PLC0415

    return ArrowToPredict(options, limits, arrow_tables, classes)


def _parquet(options: InputOptions, limits: Limits, classes: Sequence[Label]) -> Parser:
    try:
        from streamsvm.reader.parsers.tables.arrow_to_predict import ArrowToPredict  # noqa: PLC0415
        from streamsvm.reader.parsers.tables.parquet import parquet_tables  # noqa: PLC0415
    except ModuleNotFoundError:
        raise InputError("not_installed", "reading Parquet needs pyarrow") from None
    tables = partial(parquet_tables, scratch=Path(tempfile.gettempdir()), limits=limits)
    return ArrowToPredict(options, limits, tables, classes)


# format -> a function that makes its parser; the labels are the model's classes.
FORMATS: dict[str, Callable[[InputOptions, Limits, Sequence[Label]], Parser]] = {
    "libsvm": lambda options, limits, _: LibsvmParser(options.index_base, limits, weighted=False),
    "csv": _table,
    "tsv": _table,
    "parquet": _parquet,
    "npz": lambda options, limits, _: NpzParser(options, limits, Path(tempfile.gettempdir()), labelled=False),
    "fasta": lambda options, limits, _: FastaParser(options, limits, labelled=False),
    "text": lambda options, limits, _: TextParser(options, limits, labelled=False),
}
TEXT_FORMATS = FORMATS.keys() - {"parquet", "npz"}
# Formats that programs on this machine write for each other.
OF_PROGRAMS: dict[str, Callable[[InputOptions, Limits, Sequence[Label]], Parser]] = {"arrow": _arrow}
