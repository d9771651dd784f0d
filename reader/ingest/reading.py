"""One input from its bytes to rows: decompressed, recognised, parsed, normalised, and counted on the way."""

import dataclasses
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.inputs import Input, Stream
from streamsvm.reader.ingest.ranges import Parts
from streamsvm.reader.ingest.row_lengths import RowLengths
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import OTHER_NAMES, InputOptions
from streamsvm.reader.parsers import READERS, Parser, open_parser
from streamsvm.reader.parsers.label_names import LabelNames
from streamsvm.reader.parsers.libsvm.parser import LibsvmParser
from streamsvm.reader.parsers.sniff import has_documents, recognise
from streamsvm.reader.parsers.strings.strings import is_of_strings
from streamsvm.reader.parsers.tables.table import TableParser
from streamsvm.reader.parsers.text.hashed_text import HashedText
from streamsvm.reader.parsers.text.several import SeveralParser
from streamsvm.storage.blocks.feature_words import FeatureWords
from streamsvm.storage.blocks.weight_counts import WeightCounts
from streamsvm.storage.features.statistics import FeatureStatistics
from streamsvm.storage.rows.csr import VALUE, Array, Rows, squared_norms

MOST_LABELS = 10_000
_OF_FILES = {"npz", "parquet", "csv", "tsv"}  # that cannot be joined: a parser each


class Reading:
    """`rows` once, then what they were.

    input        tells how many bytes of it have been read, and in which file a fault is
    names        of the labels, if they are strings
    labels       label value -> rows; none if there are so many that they are no classes
    label_range  the smallest and the largest
    lengths      of the rows
    Qii          least, sum and largest of the squared norms; of strings, which have none, 0
    weights      of the rows, None if they have none
    has_groups   whether the rows have groups
    statistics   of the features; None: there are too many, or rows have none
    """

    def __init__(
        self,
        chunks: Iterable[bytes] | Parts,
        options: InputOptions,
        limits: Limits,
        threads: int,
        scratch: Path,
        names: LabelNames | None = None,
        known_words: FeatureWords | None = None,
    ) -> None:
        self._known_words = known_words
        self._limits = _with_features(limits, options)
        self.input: Input = chunks if isinstance(chunks, Parts) else Stream(chunks, self._limits)
        self._threads = threads
        self._scratch = scratch
        self.names = names or LabelNames(options.label_type)
        self._parser: Parser | SeveralParser | None = None
        self.options = dataclasses.replace(options, format=OTHER_NAMES.get(options.format, options.format))
        self.lengths = RowLengths()
        self.labels: dict[float, int] = {}
        self.label_range = (np.inf, -np.inf)
        self._are_classes = True
        self.Qii = (np.inf, 0.0, 0.0)
        self.weights: WeightCounts | None = None
        self.has_groups = False
        self.statistics: FeatureStatistics | None = FeatureStatistics.none()

    @property
    def parser(self) -> Parser | SeveralParser:
        """Counts what was read."""
        assert self._parser is not None, "rows() comes first"
        return self._parser

    @property
    def n_features(self) -> int:
        """As many as there are to be, or as came."""
        last = self.parser.max_index
        found = 0 if last is None else last + 1 - self.parser.index_base
        wanted = self.options.n_features
        if self.options.categories == "hashed":
            return found
        if wanted is not None and found > wanted:
            raise InputError("too_many_features", f"there are {found} features, more than the {wanted} there are to be")
        return wanted or found

    @property
    def holds_strings(self) -> bool:
        """Whether rows are strings: their indices are no features, and their values no numbers."""
        return is_of_strings(self.parser.input)

    @property
    def words(self) -> FeatureWords | None:
        """The first n-gram on each feature, of documents; those that were known before, too."""
        found = self._parser.words if isinstance(self._parser, HashedText | SeveralParser) else None
        return None if found is None else found.kept()

    @property
    def warnings(self) -> tuple[dict[str, str], ...]:
        """Warnings of a table's columns that look as if they were no features."""
        return tuple(self._parser.warnings) if isinstance(self._parser, TableParser | SeveralParser) else ()

    def rows(self) -> Iterator[Rows]:
        """The rows, in batches. InputError for a bad input."""
        try:
            for batch in self._parsed():
                rows, norms = _normalized(batch, self.options.normalize)
                self._count(rows, norms)
                yield rows
        except InputError as error:
            raise self.input.told(error) from error.__cause__

    @property
    def rejected(self) -> tuple[dict[str, Any], ...]:
        """The first few rows left out, as problems."""
        return tuple(self.input.told(fault).problem() for fault in self.parser.rejected.first)

    def _parsed(self) -> Iterator[Rows]:
        if self.options.format == "auto":
            found = _recognise(self.input.head(), self.options)
            self.options = dataclasses.replace(self.options, format=found)
        self.options = self.input.settle(self.options, self._scratch)
        if self.names.type == "auto":
            self.names.type = self.options.label_type
        open_one = partial(
            open_parser, limits=self._limits, names=self.names, threads=self._threads, scratch=self._scratch
        )
        if self.input.is_several and self.options.format in _OF_FILES:
            several = self._parser = SeveralParser(open_one, self.options)
            batches = several.parse_files(self.input.files())
        else:
            self._parser = open_one(self.options)
            batches = self._parser.parse_chunks(self.input.text())
        if self.input.is_weighted and isinstance(self._parser, LibsvmParser):
            self._parser.expect_weights()
        if isinstance(self._parser, HashedText | SeveralParser) and self._known_words is not None:
            self._parser.know(self._known_words)
        yield from batches

    def _count(self, rows: Rows, norms: Array) -> None:
        if self._are_classes:
            self._count_labels(rows)
        least, largest = self.label_range
        self.label_range = min(least, float(rows.label.min())), max(largest, float(rows.label.max()))
        self.lengths.add(np.diff(rows.indptr))
        least, total, largest = self.Qii
        norms = np.zeros(1) if self.holds_strings else norms
        self.Qii = (min(least, float(norms.min())), total + float(norms.sum()), max(largest, float(norms.max())))
        self.has_groups = rows.group is not None
        if self.holds_strings:
            self.statistics = None
        if self.statistics is not None and not self.statistics.add(rows.indptr, rows.indices, rows.values):
            self.statistics = None
        if rows.weight is not None:
            counts = WeightCounts.of(rows.weight)
            self.weights = counts if self.weights is None else self.weights.with_(counts)

    def _count_labels(self, rows: Rows) -> None:
        values, counts = np.unique(rows.label, return_counts=True)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            self.labels[value] = self.labels.get(value, 0) + count
        if len(self.labels) > MOST_LABELS:
            self._are_classes, self.labels = False, {}


def check_weights(weights: WeightCounts | None, n_rows: int) -> None:
    """InputError no_weight if all of so many rows have weight 0."""
    if weights is not None and weights.zeros == n_rows:
        raise InputError("no_weight", "all rows have weight 0")


def _with_features(limits: Limits, options: InputOptions) -> Limits:
    """Limits that hold the input to options.n_features; in a text whose base is not known, to one more."""
    if options.n_features is None:
        return limits
    if options.n_features > limits.max_features:
        raise InputError("too_many_features", f"n_features is beyond the limit of {limits.max_features}")
    # Of hashed categories, to which numbers come.
    if options.categories == "hashed":
        return limits
    beyond = options.n_features + (options.index_base != 0)
    return dataclasses.replace(limits, max_features=min(beyond, limits.max_features))


def _recognise(head: bytes, options: InputOptions) -> str:
    """The format of an input that begins so. One that would be a table is of documents if nothing else can be meant."""
    found = recognise(head)
    if options.text_column is not None:
        return "csv" if found == "libsvm" else found
    told = options.given & READERS["csv"].options - READERS["text"].options
    return "text" if found == "csv" and not told and has_documents(head) else found


def _normalized(rows: Rows, normalize: str) -> tuple[Rows, Array]:
    """The rows, divided by their norms if that is asked for, and their squared norms. Empty rows stay as they are."""
    norms = np.empty(len(rows))
    squared_norms(rows.indptr, rows.values, norms)
    if normalize == "none":
        return rows, norms
    lengths = np.repeat(np.sqrt(norms), np.diff(rows.indptr))
    rows = dataclasses.replace(rows, values=(rows.values / lengths).astype(VALUE))
    squared_norms(rows.indptr, rows.values, norms)
    return rows, norms
