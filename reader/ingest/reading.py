"""Turns the bytes of one input into rows: decompresses, recognises the format, parses, normalises and counts."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError, Rejected
from streamsvm.reader.ingest.ranges import Input, InputRange, SourceInput, StreamInput
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers import open_parser
from streamsvm.reader.parsers.base import Parser
from streamsvm.reader.parsers.fasta import is_of_strings
from streamsvm.reader.parsers.forms import form_of, settled
from streamsvm.reader.parsers.tables.fields import is_missing
from streamsvm.reader.parsers.tables.mixed_columns import first_names
from streamsvm.reader.parsers.values import LabelNames
from streamsvm.storage.blocks.feature_files import FeatureWords
from streamsvm.storage.blocks.manifest import WeightCounts
from streamsvm.storage.features.rows import FeatureStatistics
from streamsvm.storage.rows.csr import VALUE, Array, Rows, squared_norms

MOST_LISTED = 10
_BINS = 33  # bins of row lengths: 0, and [2^k, 2^(k + 1)) for k < 32


class RowLengths:
    """Statistics of the lengths (numbers of values) of an input's rows.

    rows     number of rows counted so far
    longest  (row number from 1, length) of the MOST_LISTED longest rows, longest first; equal lengths by row number
    """

    def __init__(self) -> None:
        self.rows = 0
        self.longest: list[tuple[int, int]] = []
        self._counts = np.zeros(_BINS, np.int64)

    @property
    def most(self) -> int:
        """Length of the longest row so far, 0 if no row has been counted."""
        return self.longest[0][1] if self.longest else 0

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of rows whose length is 0, 1, 2 to 3, 4 to 7, 8 to 15, and so on up to the longest row's."""
        return tuple(np.trim_zeros(self._counts, "b").tolist())

    def add(self, lengths: Array) -> None:
        """Count the next k rows of the input; `lengths` (k,) are their numbers of values."""
        # frexp gives the exponent 0 for 0, 1 for 1, 2 for 2 and 3.
        self._counts += np.bincount(np.frexp(lengths)[1], minlength=_BINS)
        beaten = self.longest[-1][1] if len(self.longest) == MOST_LISTED else -1
        longer = np.flatnonzero(lengths > beaten)
        longer = longer[np.argsort(-lengths[longer], kind="stable")[:MOST_LISTED]]
        rows = (longer + self.rows + 1).tolist()
        both = [*self.longest, *zip(rows, lengths[longer].tolist(), strict=True)]
        self.longest = sorted(both, key=lambda row: (-row[1], row[0]))[:MOST_LISTED]
        self.rows += len(lengths)


MOST_LABELS = 10_000
_MANY_LABELS = 100
_FEW_LABELS = 20  # a last column of numbers may be the column of labels if it has at most this many distinct values


class Reading:
    """One pass over an input. Call `rows` once; when it is exhausted, the attributes describe all rows.

    input        the source of bytes: it counts bytes read
    index_base   0 or 1: the number of the first feature; with the option "auto" 0 if some file has a feature 0
    names        numbers of the labels that are strings
    nnz          number of stored values
    rejected     counts the rows that were left out for a fault, and has their first errors
    counters     see `Parser`
    labels       label value -> number of rows; empty if over MOST_LABELS values occur: labels are then no classes
    label_range  the smallest and the largest label
    lengths      statistics of the rows' numbers of values
    Qii          least, sum and largest of the rows' squared norms |x_i|^2; 0 for strings of bases
    weights      counts of the rows' weights; None if rows have no weights
    has_groups   whether the rows have groups
    statistics   statistics of each feature; None if there are too many features, or rows are strings of bases
    """

    def __init__(
        self,
        chunks: Iterable[bytes] | SourceInput,
        options: InputOptions,
        limits: InputLimits,
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
        self._parser: Parser | None = None
        self.index_base = 1
        self._max_index: int | None = None
        self._warnings: list[dict[str, str]] = []
        self._last_values = 0, False  # of the first file that has some, see `Parser`
        self.nnz = 0
        self.rejected = Rejected(options.on_bad_row == "skip")
        self.counters = Counter[str]()
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
    def parser(self) -> Parser:
        """The parser of the input, or of the last of several files that was opened."""
        assert self._parser is not None, "rows() comes first"
        return self._parser

    @property
    def n_features(self) -> int:
        """The option n_features, or by default, and with hashed categories, the features read. Raises InputError."""
        count = 0 if self._max_index is None else self._max_index + 1 - self.index_base
        wanted = self.options.n_features
        if self.options.categories == "hashed":
            return count
        if wanted is not None and count > wanted:
            raise InputError("too_many_features", f"there are {count} features, n_features is {wanted}")
        return wanted or count

    @property
    def holds_strings(self) -> bool:
        """Whether rows are strings of bases: their indices and values then hold packed letters, not features."""
        return is_of_strings(self.parser.input)

    @property
    def described(self) -> dict[str, Any] | None:
        """`Manifest.input`: the parser's entries, and the options by which the file is written (`form_of`)."""
        input_ = self.parser.input
        return input_ and {**input_, **form_of(self.options, input_)}

    @property
    def words(self) -> FeatureWords | None:
        """The first n-gram hashed to each feature, also in earlier documents; None if the rows are not documents."""
        return None if self.parser.words is None else self.parser.words.in_order()

    @property
    def warnings(self) -> tuple[dict[str, str], ...]:
        """Warnings: columns of a table that look like ids or dates, and labels that do not look like classes."""
        return (*self._warnings, *self._label_warnings(self.parser.input or {}), *self._labels_missing())

    def _labels_missing(self) -> Iterator[dict[str, str]]:
        """Yield a warning if a label that is a string is a word for a missing value, such as NA."""
        if names := [name for name in self.names.names if is_missing(name.encode())]:
            what = f"labels that look like missing values are taken for classes: {first_names(names)}"
            yield {"code": "labels_missing", "message": f"{what}. If they are missing, leave their rows out"}

    def _label_warnings(self, input_: dict[str, Any]) -> Iterator[dict[str, str]]:
        """Yield a warning if labels were taken from the first column by default, and do not look like classes.

        They do not if they have over _MANY_LABELS values; or are numbers, and the last column has words; or if the
        last column has few values, and fewer than the labels.
        """
        options = self.options
        if input_.get("has_names", True) or options.label_column is not None or options.like is not None:
            return
        labels, (last, are_words) = len(self.labels), self._last_values
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
        """Yield all rows in batches; call it once. Raises InputError, with its file, if the input cannot be read."""
        try:
            for batch in self._parsed():
                rows, norms = _normalized(batch, self.options.normalize)
                self._count(rows, norms)
                yield rows
        except InputError as error:
            self.input.check(error)
            raise

    def _parsed(self) -> Iterator[Rows]:
        before = self.options.like if self.options.trained is None else self.options.trained
        head = self.input.head() if self.options.format == "auto" or before else b""
        self.options = self.input.settle(settled(self.options, head, before), self._scratch)
        if self.names.type == "auto":
            self.names.type = self.options.label_type
        for file in self.input.files():
            try:
                yield from self._parsed_by_one(file)
            except InputError as error:
                # Programs that write many files leave some of them empty.
                if error.code != "no_rows" or not self.input.is_several:
                    raise file.placed(error) from error.__cause__
        if self.lengths.rows == 0:
            raise self.rejected.no_rows("the files have no row")

    def _parsed_by_one(self, file: InputRange) -> Iterator[Rows]:
        """Yield the rows of the input, or of the next of its files."""
        options, before = self.options, self._parser
        if before is not None and before.input is not None and before.words is None:
            options = replace(options, n_features=None, like=before.input)
        parser = self._parser = open_parser(options, self._limits, self.names, self._threads, self._scratch)
        if self.input.is_weighted or self.lengths.rows:
            parser.expect_weights(self.input.is_weighted or self.weights is not None)
        if before is not None:
            parser.words = before.words
        elif self._earlier_words is not None:
            parser.know(self._earlier_words)
        try:
            yield from parser.parse_chunks(file.chunks)
        finally:
            self.index_base = parser.index_base if before is None else min(self.index_base, parser.index_base)
            self._warnings += parser.warnings
            self._last_values = self._last_values if self._last_values[0] else parser.last_values
            self.counters.update(parser.counters)  # `+=` would drop those that are 0
            if parser.max_index is not None:
                self._max_index = max(self._max_index or 0, parser.max_index)
            self.rejected.join(parser.rejected, file.placed)

    def _count(self, rows: Rows, norms: Array) -> None:
        if self._are_classes:
            values, counts = np.unique(rows.label, return_counts=True)
            for value, count in zip(values.tolist(), counts.tolist(), strict=True):
                self.labels[value] = self.labels.get(value, 0) + count
            if len(self.labels) > MOST_LABELS:
                self._are_classes, self.labels = False, {}
        least, largest = self.label_range
        self.label_range = min(least, float(rows.label.min())), max(largest, float(rows.label.max()))
        self.lengths.add(np.diff(rows.indptr))
        self.nnz += rows.nnz
        least, total, largest = self.Qii
        norms = np.zeros(1) if self.holds_strings else norms
        self.Qii = (min(least, float(norms.min())), total + float(norms.sum()), max(largest, float(norms.max())))
        self.has_groups = rows.group is not None
        if self.holds_strings:
            self.statistics = None
        if self.statistics is not None and not self.statistics.add(rows.indptr, rows.indices, rows.values):
            self.statistics = None
        if rows.weight is not None:
            weights = WeightCounts.of(rows.weight)
            self.weights = weights if self.weights is None else self.weights.with_(weights)


def check_weights(weights: WeightCounts | None, n_rows: int) -> None:
    """Raise InputError no_weight if all `n_rows` rows have weight 0."""
    if weights is not None and weights.zeros == n_rows:
        raise InputError("no_weight", "all rows have weight 0")


def _with_features(limits: InputLimits, options: InputOptions) -> InputLimits:
    """Return the limits with max_features at most options.n_features, plus 1 if features may be numbered from 1."""
    if options.n_features is None:
        return limits
    if options.n_features > limits.max_features:
        raise InputError("too_many_features", f"n_features is beyond the limit of {limits.max_features}")
    # With hashed categories, n_features bounds only the categories' features, not those of columns of numbers.
    if options.categories == "hashed":
        return limits
    beyond = options.n_features + (options.index_base != 0)
    return dataclasses.replace(limits, max_features=min(beyond, limits.max_features))


def _normalized(rows: Rows, normalize: str) -> tuple[Rows, Array]:
    """Return the rows, for "row_l2" divided by their norms, and the returned rows' squared norms (n,)."""
    norms = np.empty(len(rows))
    squared_norms(rows.indptr, rows.values, norms)
    if normalize == "none":
        return rows, norms
    lengths = np.repeat(np.sqrt(norms), np.diff(rows.indptr))
    rows = dataclasses.replace(rows, values=(rows.values / lengths).astype(VALUE))
    squared_norms(rows.indptr, rows.values, norms)
    return rows, norms
