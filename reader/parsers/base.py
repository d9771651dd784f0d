"""The base of all parsers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError, Rejected
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.matching import ToPredict
from streamsvm.reader.parsers.text.hasher import FirstWords
from streamsvm.reader.parsers.values import LabelNames
from streamsvm.storage.blocks.feature_files import FeatureWords
from streamsvm.storage.rows.csr import Array, Rows


class Parser:
    """Reads one input. The attributes are final when `parse_chunks` has yielded all rows.

    base   number of the first feature if options.index_base is "auto"
    names  assigns numbers to labels that are strings

    index_base  0 or 1: the number of the first feature
    rows, nnz   numbers of rows and of stored values yielded so far
    max_index   the largest feature number, None if there is no feature
    counters    name -> count of oddities that are no faults: blank_lines, explicit_zeros ...
    rejected    counts the rows that were left out for a fault, and has their first errors
    input       `Manifest.input`: describes the features, so that later rows get them too; None: they have numbers only
    feature_places  (d,) int32: the values of a row are sorted by feature_places[feature]; None: by feature number
    is_weighted whether the rows of LIBSVM text read so far have weights
    has_names   whether the first line or record names the columns; False before it has been read
    delimiter   of the lines of CSV, as an option names it; None before the first line has been read
    warnings    a code and a message for each problem of a table's columns: some look like ids or dates
    last_values number of values of a table's last column if it could have labels, see `OddColumns.last_values`
    words       of documents: the first n-gram that was hashed to each feature; None for documents to predict, unless
                `note_words` was called before their rows are read
    to_predict  finds labels and columns of rows to predict; None: the rows make a dataset
    unknown_words  of a table to predict: number of fields whose category has no feature, by column
    first_row   of tables of Arrow: number of the input's first row, for errors
    """

    input: dict[str, Any] | None = None
    feature_places: Array | None = None
    is_weighted = has_names = False
    delimiter: str | None = None
    warnings: Sequence[dict[str, str]] = ()
    last_values = 0, False
    words: FirstWords | None = None
    unknown_words: Mapping[str, int] = {}
    first_row = 1

    def __init__(
        self,
        options: InputOptions,
        limits: InputLimits,
        base: int,
        names: LabelNames | None = None,
        to_predict: ToPredict | None = None,
    ) -> None:
        self.index_base = base if options.index_base == "auto" else options.index_base
        self.rows = self.nnz = 0
        self.max_index: int | None = None
        self.rejected = Rejected(options.on_bad_row == "skip")
        self.to_predict = to_predict
        self._names = names or LabelNames(to_predict.label_type if to_predict else options.label_type)
        self._options = options
        self._limits = limits
        self._empty_rows = self._blank_lines = self._explicit_zeros = 0

    def note_words(self) -> None:
        """Have `words` filled for rows to predict, too; rows that are no documents have none."""

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """Yield the rows of an input whose decompressed bytes are `chunks`. Raises InputError at the first fault.

        With on_bad_row="skip", rows with a fault are left out.
        """
        raise NotImplementedError

    @property
    def counters(self) -> dict[str, int]:
        return {
            "explicit_zeros": self._explicit_zeros,
            "empty_rows": self._empty_rows,
            "blank_lines": self._blank_lines,
            "comment_lines": 0,
        }

    def expect_weights(self, are_there: bool) -> None:
        """Read rows of LIBSVM text as label:weight or, if False, as a label without a weight, whatever the first is."""

    def know(self, words: FeatureWords) -> None:
        """Store the first n-grams of features from documents that were read before."""

    def set_features(self, count: int) -> None:
        """Set `max_index` for `count` features. Raises InputError too_many_features above the limit."""
        if count > self._limits.max_features:
            raise InputError(
                "too_many_features", f"{count} columns are more than the limit of {self._limits.max_features}"
            )
        self.max_index = self.index_base + count - 1 if count else None

    def give(self, rows: Rows) -> Rows:
        """Add `rows` to the numbers of rows, values and empty rows; return `rows`."""
        self.rows += len(rows)
        self.nnz += rows.nnz
        self._empty_rows += int(np.count_nonzero(np.diff(rows.indptr) == 0))
        return rows

    def check_end(self) -> None:
        """Raise InputError no_rows if no row of the input could be read."""
        if self.rows == 0:
            raise self.rejected.no_rows("the input has no row")
