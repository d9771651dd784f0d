"""Turns the bytes of one input into rows: decompresses, recognises the format, parses, normalises and counts."""

import dataclasses
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.inputs import Input, StreamInput
from streamsvm.reader.ingest.ranges import SourceInput
from streamsvm.reader.ingest.row_lengths import RowLengths
from streamsvm.reader.ingest.several_files import SeveralFiles
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import TABLES, InputOptions
from streamsvm.reader.parsers import Parser, open_parser
from streamsvm.reader.parsers.forms import form_of, settled
from streamsvm.reader.parsers.label_names import LabelNames
from streamsvm.reader.parsers.libsvm.parser import LibsvmParser
from streamsvm.reader.parsers.strings.strings import is_of_strings
from streamsvm.reader.parsers.tables.table import TableParser
from streamsvm.reader.parsers.text.hashed_text import HashedText
from streamsvm.storage.blocks.feature_words import FeatureWords
from streamsvm.storage.blocks.weight_counts import WeightCounts
from streamsvm.storage.features.statistics import FeatureStatistics
from streamsvm.storage.rows.csr import VALUE, Array, Rows, squared_norms

MOST_LABELS = 10_000
_MANY_LABELS = 100
_FEW_LABELS = 20  # numbers in a last column that may have the labels
_OF_FILES = ("npz", *TABLES)  # files that cannot be joined as bytes: each has a parser of its own


class Reading:
    """Call `rows` once; the attributes describe all rows when it is exhausted.

    input        counts the bytes read, and knows in which file a fault is
    names        of labels that are strings
    labels       label value -> number of rows; empty if there are more than MOST_LABELS: then they are no classes
    label_range  the smallest and the largest label
    lengths      of the rows
    Qii          least, sum and largest of the squared norms; 0 for strings, which have none
    weights      of the rows; None if they have none
    has_groups   whether the rows have groups
    statistics   of the features; None if there are too many, or rows are strings
    """

    def __init__(
        self,
        chunks: Iterable[bytes] | SourceInput,
        options: InputOptions,
        limits: Limits,
        threads: int,
        scratch: Path,
        names: LabelNames | None = None,
        earlier_words: FeatureWords | None = None,
    ) -> None:
        self._earlier_words = earlier_words
        self._limits = _with_features(limits, options)
        self.input: Input = chunks if isinstance(chunks, SourceInput) else StreamInput(chunks, self._limits)
        self._threads = threads
        self._scratch = scratch
        self.names = names or LabelNames(options.label_type)
        self._parser: Parser | SeveralFiles | None = None
        self.options = options
        self.lengths = RowLengths()
        self.labels: dict[float, int] = {}
        self.label_range = (np.inf, -np.inf)
        self._are_classes = True
        self.Qii = (np.inf, 0.0, 0.0)
        self.weights: WeightCounts | None = None
        self.has_groups = False
        self.statistics: FeatureStatistics | None = FeatureStatistics.none()

    @property
    def parser(self) -> Parser | SeveralFiles:
        """The parser of the input, which counts rows and values."""
        assert self._parser is not None, "rows() comes first"
        return self._parser

    @property
    def n_features(self) -> int:
        """options.n_features, or the number of features in the input. InputError too_many_features."""
        last = self.parser.max_index
        count = 0 if last is None else last + 1 - self.parser.index_base
        wanted = self.options.n_features
        if self.options.categories == "hashed":
            return count
        if wanted is not None and count > wanted:
            raise InputError("too_many_features", f"there are {count} features, n_features is {wanted}")
        return wanted or count

    @property
    def holds_strings(self) -> bool:
        """Whether rows are strings of bases: indices and values hold packed letters, no features."""
        return is_of_strings(self.parser.input)

    @property
    def described(self) -> dict[str, Any] | None:
        """`Manifest.input`: what the parser says, and the form of the file, or that of the rows before."""
        input_ = self.parser.input
        return input_ and {**input_, **form_of(self.options, input_)}

    @property
    def feature_places(self) -> Array | None:
        """The places of features in rows, if these are not the order of their numbers, see `MatrixParser`."""
        return getattr(self._parser, "feature_places", None)

    @property
    def words(self) -> FeatureWords | None:
        """The first n-gram on each feature, earlier documents included; None if rows are not documents."""
        words = self._parser.words if isinstance(self._parser, HashedText | SeveralFiles) else None
        return None if words is None else words.in_order()

    @property
    def warnings(self) -> tuple[dict[str, str], ...]:
        """Warnings of columns of a table that look like ids or dates, and of labels that look like no classes."""
        if not isinstance(self._parser, TableParser | SeveralFiles):
            return ()
        return (*self._parser.warnings, *self._label_warnings(self._parser.input or {}))

    def _label_warnings(self, input_: dict[str, Any]) -> Iterator[dict[str, str]]:
        """Yield a warning if labels are in the first column, as nobody said otherwise, and look like no classes there.

        They do if they are very many, or numbers although the last column has some words, or if the last column has
        few values, and fewer than the first.
        """
        options = self.options
        if input_.get("has_names", True) or options.label_column is not None or options.like is not None:
            return
        labels, (last, are_words) = len(self.labels), getattr(self._parser, "last_values", (0, False))
        is_likelier = self.names.type != "string" if are_words else last < labels and last <= _FEW_LABELS
        if labels > _MANY_LABELS or not self._are_classes:
            code, values = "many_labels", f"over {_MANY_LABELS} values"
        elif 2 <= last <= _MANY_LABELS and is_likelier:
            code, values = "labels_first", f"{labels} values, the last has {last}"
        else:
            return
        what = f"no line names the columns, and the first, taken for labels, has {values}"
        help_ = "If another column has the labels, name it: label_column=-1 is the last, 1 the first"
        yield {"code": code, "message": f"{what}. {help_}"}

    def rows(self) -> Iterator[Rows]:
        """Yield the rows in batches. InputError for a bad input."""
        try:
            for batch in self._parsed():
                rows, norms = _normalized(batch, self.options.normalize)
                self._count(rows, norms)
                yield rows
        except InputError as error:
            raise self.input.placed(error) from error.__cause__

    @property
    def rejected(self) -> tuple[dict[str, Any], ...]:
        """The faults of the first few rows that were left out, as JSON objects."""
        return tuple(self.input.placed(fault).problem() for fault in self.parser.rejected.first)

    def _parsed(self) -> Iterator[Rows]:
        before = self.options.like if self.options.trained is None else self.options.trained
        head = self.input.head() if self.options.format == "auto" or before else b""
        self.options = self.input.settle(settled(self.options, head, before), self._scratch)
        if self.names.type == "auto":
            self.names.type = self.options.label_type
        open_one = partial(
            open_parser, limits=self._limits, names=self.names, threads=self._threads, scratch=self._scratch
        )
        if self.input.is_several and self.options.format in _OF_FILES:
            several = self._parser = SeveralFiles(open_one, self.options)
            batches = several.parse_files(self.input.files())
        else:
            self._parser = open_one(self.options)
            batches = self._parser.parse_chunks(self.input.text())
        if self.input.is_weighted and isinstance(self._parser, LibsvmParser):
            self._parser.expect_weights()
        if isinstance(self._parser, HashedText | SeveralFiles) and self._earlier_words is not None:
            self._parser.know(self._earlier_words)
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
    """InputError no_weight if all `n_rows` rows have weight 0."""
    if weights is not None and weights.zeros == n_rows:
        raise InputError("no_weight", "all rows have weight 0")


def _with_features(limits: Limits, options: InputOptions) -> Limits:
    """Limits with options.n_features as the most; one more where the text may number features from 1."""
    if options.n_features is None:
        return limits
    if options.n_features > limits.max_features:
        raise InputError("too_many_features", f"n_features is beyond the limit of {limits.max_features}")
    # Columns of numbers are features beside the hashed categories.
    if options.categories == "hashed":
        return limits
    beyond = options.n_features + (options.index_base != 0)
    return dataclasses.replace(limits, max_features=min(beyond, limits.max_features))


def _normalized(rows: Rows, normalize: str) -> tuple[Rows, Array]:
    """The rows, divided by their norms for "row_l2", and their squared norms (n,). Empty rows stay as they are."""
    norms = np.empty(len(rows))
    squared_norms(rows.indptr, rows.values, norms)
    if normalize == "none":
        return rows, norms
    lengths = np.repeat(np.sqrt(norms), np.diff(rows.indptr))
    rows = dataclasses.replace(rows, values=(rows.values / lengths).astype(VALUE))
    squared_norms(rows.indptr, rows.values, norms)
    return rows, norms
