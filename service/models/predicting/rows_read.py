"""The text formats of rows to predict, with their parsers."""

from collections.abc import Callable, Sequence
from pathlib import Path

from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers import Parser
from streamsvm.reader.parsers.libsvm.parser import LibsvmParser
from streamsvm.reader.parsers.strings.fasta import FastaParser
from streamsvm.reader.parsers.tables.csv_to_predict import CsvToPredict
from streamsvm.reader.parsers.text.parser import TextParser
from streamsvm.reader.parsers.text.table import TextTableParser
from streamsvm.storage.models.model_file import Label


def format_of_name(file: Path, otherwise: str) -> str:
    """The format that the endings of a file name mean, such as rows.csv or rows.tsv.gz; else `otherwise`."""
    if {".fa", ".fna"} & set(file.suffixes):
        return "fasta"
    return next((name for name in FORMATS if f".{name}" in file.suffixes), otherwise)


def _table(options: InputOptions, limits: Limits, classes: Sequence[Label]) -> Parser:
    if options.text_column is not None:
        return TextTableParser(options, limits, labelled=False)
    return CsvToPredict(options, limits, classes)


# format -> a function that makes its parser; the labels are the model's classes.
FORMATS: dict[str, Callable[[InputOptions, Limits, Sequence[Label]], Parser]] = {
    "libsvm": lambda options, limits, _: LibsvmParser(options.index_base, limits, weighted=False),
    "csv": _table,
    "tsv": _table,
    "fasta": lambda options, limits, _: FastaParser(options, limits, labelled=False),
    "text": lambda options, limits, _: TextParser(options, limits, labelled=False),
}
