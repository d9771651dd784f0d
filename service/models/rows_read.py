"""Texts in which rows come to be predicted."""

from collections.abc import Callable

from reader.limits import Limits
from reader.options import InputOptions
from reader.parsers import Parser
from reader.parsers.csv import CsvParser
from reader.parsers.fasta import FastaParser
from reader.parsers.libsvm import LibsvmParser
from reader.parsers.text import TextParser
from reader.parsers.text_table import TextTableParser


def _table(options: InputOptions, limits: Limits) -> Parser:
    if options.text_column is not None:
        return TextTableParser(options, limits, labelled=False)
    return CsvParser(options, limits, labelled=False)


FORMATS: dict[str, Callable[[InputOptions, Limits], Parser]] = {
    "libsvm": lambda options, limits: LibsvmParser(options.index_base, limits, weighted=False),
    "csv": _table,
    "tsv": _table,
    "fasta": lambda options, limits: FastaParser(options, limits, labelled=False),
    "text": lambda options, limits: TextParser(options, limits, labelled=False),
}
