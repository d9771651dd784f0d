"""Turns the columns of tables of all formats, and of documents, into rows: labels, weights, groups and features.

The parser of a format calls `settle_heading` and `settle_features` for a table, then `rows_in` for each batch of rows.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.base import Parser
from streamsvm.reader.parsers.tables.categories import TextFields
from streamsvm.reader.parsers.tables.columns import (
    ColumnPlaces,
    Heading,
    columns_of_documents,
    find_columns,
    find_label,
    not_filled_in,
    string_place,
)
from streamsvm.reader.parsers.tables.fields import FieldBatch, batch_rows, decoded, is_missing, label_type, text_fault
from streamsvm.reader.parsers.tables.matching import ToPredict, columns_before
from streamsvm.reader.parsers.tables.mixed import Maker, MixedFeatures, StringColumn
from streamsvm.reader.parsers.tables.mixed_columns import (
    ALL,
    check_header,
    column_entries,
    like_before,
    new_columns,
)
from streamsvm.reader.parsers.text.hashed_text import DocumentColumn
from streamsvm.reader.parsers.text.hasher import FirstWords
from streamsvm.reader.parsers.values import LabelNames, exact_fault, fits, groups_of
from streamsvm.storage.blocks.feature_files import FeatureWords
from streamsvm.storage.rows.csr import LABEL, Array, Rows

Fault = tuple[str, str, int]  # code, message, offset in the field
Faults = dict[int, dict[int, Fault]]  # index of a row in its batch -> position of a column -> fault
_DOCUMENTS = 1 << 12  # most documents in a batch of rows that are in memory


class TableParser(Parser):
    """A parser whose features are made of columns and numbered from 1, or of a column of documents and numbered from 0.

    threads  number of threads that hash documents
    """

    format = "csv"  # the entry "format" of Manifest.input

    def __init__(
        self,
        options: InputOptions,
        limits: InputLimits,
        names: LabelNames | None = None,
        to_predict: ToPredict | None = None,
        threads: int = 1,
    ) -> None:
        has_documents = options.format == "text" or options.text_column is not None
        super().__init__(options if has_documents else like_before(options), limits, 1, names, to_predict)
        self._heading = Heading(None, 0)
        self._columns = ColumnPlaces(None, None, None)
        self._documents = DocumentColumn(options, threads) if has_documents else None
        self._maker: Maker | DocumentColumn | None = self._documents
        self._column_entries: dict[str, Any] = {}
        if self._documents is not None:
            self.index_base = 0
            self.set_features(self._documents.n_features)
            if to_predict is None:
                self.note_words()

    @property
    def input(self) -> dict[str, Any] | None:  # type: ignore[override]
        return None if self._maker is None else {**self._column_entries, **self._maker.input_entries()}

    @property
    def has_names(self) -> bool:  # type: ignore[override]
        return self._heading.names is not None

    @property
    def feature_places(self) -> Array | None:  # type: ignore[override]
        return None if self._maker is None else self._maker.places(self.index_base)

    @property
    def unknown_words(self) -> Mapping[str, int]:  # type: ignore[override]
        return self._maker.unknown if self._maker else {}

    @property
    def words(self) -> FirstWords | None:
        return None if self._documents is None else self._documents.words

    @words.setter
    def words(self, words: FirstWords | None) -> None:
        if self._documents is not None:
            self._documents.words = words

    def note_words(self) -> None:
        if self._documents is not None:
            self._documents.note_words()

    def know(self, words: FeatureWords) -> None:
        if self.words is not None:
            self.words.put(words.features, words.signs, list(words.words))

    @property
    def warnings(self) -> Sequence[dict[str, str]]:  # type: ignore[override]
        return self._maker.warnings if self._maker else ()

    @property
    def last_values(self) -> tuple[int, bool]:  # type: ignore[override]
        return self._maker.last_values(self._heading.n_columns) if self._maker else (0, False)

    @property
    def text_columns(self) -> list[int]:
        """Positions of the columns that are read as strings: groups, and labels if they are strings."""
        label = self._columns.label if self._names.type == "string" else None
        return [place for place in (label, self._columns.group) if place is not None]

    @property
    def is_new(self) -> bool:
        """Whether the rows make a new dataset, so that options may still choose what a column holds."""
        return self.to_predict is None and self._options.like is None

    @property
    def looks_for_words(self) -> bool:
        """Whether the first rows decide which columns hold words: all with a word, or those that mostly have words."""
        return self.is_new and self._options.categorical in (None, ALL)

    @property
    def most_rows(self) -> int:
        """The most rows of a batch."""
        return batch_rows(self._heading.n_columns) if self._documents is None else _DOCUMENTS

    def settle_heading(self, heading: Heading) -> None:
        """Find the columns of labels, weights, groups and documents. Call it for each table of an input."""
        self._heading = heading
        to_judge = self.to_predict.aside(self._options, heading) if self.to_predict is not None else None
        if self._documents is not None:
            place, self._columns = columns_of_documents(self._options, heading, to_judge)
            self._documents.word_places = [place]
            return
        if to_judge is not None:
            self._columns = to_judge
            return
        check_header(self._options, heading)
        self._columns = find_columns(find_label(self._options, heading), self._options, heading)

    def settle_features(self, words: Callable[[], set[int]], index: Collection[str] = ()) -> Maker | DocumentColumn:
        """Decide which of the other columns make features; return the object that makes them.

        words  returns the positions of the columns that hold words by the first rows; called if `looks_for_words`
        index  names of the columns that are an index of pandas by the file's metadata
        """
        if self._documents is not None:
            return self._documents
        place = string_place(self._options, self._heading, self._columns.aside)
        if place is not None:
            self._maker = self._maker or StringColumn(place, self._options)
            self.index_base = 0
            return self._maker
        options, heading, aside = self._options, self._heading, self._columns
        if self.to_predict is not None:
            columns = self.to_predict.columns(options, heading, aside)
        elif like := options.like or (self.input if self._maker is not None else None):
            columns = columns_before(like, options, heading, aside.aside)
        else:
            of_words = words() if self.looks_for_words else set()
            columns = new_columns(options, heading, aside.aside, of_words, index)
        if isinstance(self._maker, MixedFeatures):
            self._maker.columns = columns
        else:
            self._maker = MixedFeatures(columns, self._options, grows=self.to_predict is None)
            self._column_entries = options.like or column_entries(self.format, columns, aside, heading)
        self.set_features(self._maker.n_features)
        return self._maker

    def rows_in(self, batch: FieldBatch) -> Iterator[Rows]:
        """Yield the rows of a batch that have no fault; reject the other rows.

        The first label that is not missing sets the type of labels, unless it is known.
        """
        maker, weight, group = self._maker, self._columns.weight, self._columns.group
        assert maker is not None
        self._settle_type(batch)
        faults: Faults = {}
        texts = {k: self._texts(batch, k, faults) for k in self.text_columns}
        aside = [k for k in (self._columns.label, weight) if k is not None and k not in texts]
        numbers = {k: self._aside(batch, k, faults) for k in aside}
        words: dict[int, TextFields] = {}
        for k in maker.word_places:
            fields, fit = words[k], _ = maker.read(batch, k)
            for row in np.flatnonzero(~fit).tolist():
                if (fault := maker.word_fault(fields[row])) is not None:
                    faults.setdefault(row, {})[k] = fault
        table = self._features(batch, maker.number_places, faults)
        keep = np.ones(batch.rows, bool)
        keep[list(faults)] = False
        self._reject(batch, faults)
        is_all = bool(keep.all())
        labels = self._labels_of(numbers, texts, keep)
        good_words = [fields if is_all else fields.select(keep) for fields in words.values()]
        weights = None if weight is None else numbers[weight][keep]
        groups = None if group is None else groups_of(np.array(texts[group], object)[keep].tolist())
        made = (
            maker.make(good_words[0])
            if isinstance(maker, DocumentColumn)
            else iter([maker.make(table if is_all else table[keep], good_words, self.index_base)])
        )
        begin = 0
        for indptr, indices, values in made:
            part = slice(begin, begin := begin + len(indptr) - 1)
            self.set_features(maker.n_features)
            beside = (None if column is None else column[part] for column in (weights, groups))
            rows = self.give(Rows(labels[part], indptr, indices, values, *beside))
            if len(rows):
                yield rows

    def error_at(self, batch: FieldBatch, row: int, column: int, fault: Fault) -> InputError:
        """Return the error for the fault of a field, by its row in the batch and the position of its column."""
        raise NotImplementedError

    def put_beside(self, batch: FieldBatch) -> None:
        """Put the columns of a batch that the user wants beside the predictions into `to_predict.beside`."""
        if self.to_predict is not None and (places := self.kept_places()):
            columns = map(batch.words, places)
            self.to_predict.beside.put([decoded([each[row] for row in range(len(each))]) for each in columns])

    def kept_places(self) -> Sequence[int]:
        """Return the positions, in a batch, of the columns that the user wants beside the predictions."""
        return self._heading.places_of(self.to_predict.beside.names, "keep") if self.to_predict is not None else []

    def kind(self, column: int) -> str:
        """Return what a column of numbers holds: "label", "weight" or "field"."""
        return {self._columns.label: "label", self._columns.weight: "weight"}.get(column, "field")

    def _settle_type(self, batch: FieldBatch) -> None:
        label = self._columns.label
        if label is None or self._names.type != "auto":
            return
        words = batch.words(label)
        first = next((word for row in range(len(words)) if not is_missing(word := words[row])), None)
        if first is not None:
            self._names.type = label_type(first)

    def _reject(self, batch: FieldBatch, faults: Faults) -> None:
        """Reject bad lines and faulty rows in input order; the error of a row is that of its first faulty column."""
        placed = list(batch.bad_lines)
        for row, of_columns in faults.items():
            column = min(of_columns)
            fault = of_columns[column]
            place = batch.place(row, column) + fault[2]
            placed.append((place, partial(self._error, batch, row, column, fault)))
        for _, make_error in sorted(placed, key=itemgetter(0)):
            self.rejected.add(make_error)

    def _error(self, batch: FieldBatch, row: int, column: int, fault: Fault) -> InputError:
        error = self.error_at(batch, row, column, fault)
        is_filled_in = self._documents is None and column not in self._columns.aside
        return error if is_filled_in else not_filled_in(error)

    def _features(self, batch: FieldBatch, places: Array, faults: Faults) -> Array:
        """Return (n, k) float64: the numbers in the columns `places`, NaN if missing; add their faults to `faults`."""
        values, missing = batch.numbers(places, exact=False)
        if missing is None:
            return values
        fit = fits(values)
        if self._options.missing != "error":
            fit |= missing
        for row, k in np.argwhere(~fit).tolist():
            column = int(places[k])
            faults.setdefault(row, {})[column] = (*batch.fault(row, column, "field"), 0)
        return values

    def _aside(self, batch: FieldBatch, column: int, faults: Faults) -> Array:
        """Return (n,) float64: the numbers in a column of labels or weights; add their faults to `faults`."""
        values = batch.numbers(np.array([column]), exact=True)[0][:, 0]
        # A label may be any finite float64.
        is_label = column == self._columns.label
        fit = np.isfinite(values) if is_label else fits(values) & (values >= 0)
        if is_label and self.to_predict is not None:
            return np.where(fit, values, np.nan)
        if is_label and len(large := np.flatnonzero(fit & (np.abs(values) >= 2**53))):
            words = batch.words(column)
            for row in large.tolist():
                if (inexact := exact_fault(words[row])) is not None:
                    faults.setdefault(row, {})[column] = (*inexact, 0)
        for row in np.flatnonzero(~fit).tolist():
            faults.setdefault(row, {})[column] = (*batch.fault(row, column, self.kind(column)), 0)
        return values

    def _texts(self, batch: FieldBatch, column: int, faults: Faults) -> list[str]:
        """Return the strings in a column of labels or groups, "" if missing or faulty; add their faults to `faults`."""
        fields, of_row = batch.words(column).distinct_texts()
        has_zeros = self._documents is None or column != self._columns.label  # no label of a document has a zero byte
        found = [
            text_fault(field) if has_zeros or b"\0" not in field else ("bad_byte", "a byte 0x00 in a label")
            for field in map(fields.__getitem__, range(len(fields)))
        ]
        texts = ["" if fault else fields[number].decode() for number, fault in enumerate(found)]
        is_judged = column == self._columns.label and self.to_predict is not None
        if any(found) and not is_judged:
            for row, number in enumerate(np.arange(len(fields))[of_row].tolist()):
                if (fault := found[number]) is not None:
                    faults.setdefault(row, {})[column] = (*fault, 0)
        return np.array(texts, object)[of_row].tolist()

    def _labels_of(self, numbers: dict[int, Array], texts: dict[int, list[str]], keep: Array) -> Array:
        """Return the labels of the rows for which `keep` is true, NaN for a row without a label."""
        label = self._columns.label
        if label is None:
            return np.full(int(keep.sum()), np.nan)
        if label not in texts:
            return numbers[label][keep].astype(LABEL)
        if self.to_predict is not None:
            return self.to_predict.codes(texts[label])[keep]
        return self._names.numbers(np.array(texts[label], object)[keep].tolist())
