"""Warns of columns that look like ids or dates, by the first rows; the user decides whether to drop them."""

import re
from collections.abc import Sequence

import numpy as np

from streamsvm.reader.parsers.tables.categories import Fields
from streamsvm.reader.parsers.tables.mixed_columns import MixedColumns, first_names
from streamsvm.storage.rows.csr import Array

_LOOK_ROWS, _LOOK_VALUES, _LOOK_BYTES = 10_000, 1 << 20, 16 << 20
_LEAST_ROWS = 10  # before a column is called an id by its values alone
_ID = re.compile(r"(.*[^a-z])?(id|ids|idx|index|key|uuid|guid|rownum|row_number|row_no|serial)", re.IGNORECASE)
_CAMEL_ID = re.compile(r".*[a-z](Id|ID)")
_DATE = re.compile(rb"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}([T ].*)?")
_LARGE = 1 << 24
_FIRST_DAY, _LAST_DAY = 1900_01_01, 2100_12_31

Warning_ = dict[str, str]


class OddColumns:
    """Call `look` with rows as they come, then `warnings`. Only the first rows are stored."""

    def __init__(self, columns: MixedColumns) -> None:
        self._columns = columns
        self._names = columns.number_names
        self._most = max(1, min(_LOOK_ROWS, _LOOK_VALUES // max(1, len(columns.names))))
        self._numbers: list[Array] = []
        self._words: list[list[bytes]] = [[] for _ in columns.words]
        self._rows = self._bytes = 0

    def look(self, numbers: Array, words: Sequence[Fields]) -> None:
        """Store rows: numbers (n, k), NaN where missing, and the words of each word column."""
        count = min(len(numbers), self._most - self._rows)
        if words and count > 0:
            size = self._bytes + np.cumsum(sum(fields.stop[:count] - fields.start[:count] for fields in words))
            fit = int(np.searchsorted(size, _LOOK_BYTES, "right"))
            self._most, count, self._bytes = (self._most if fit == count else 0), fit, int(size[-1])
        if count <= 0:
            return
        self._numbers.append(numbers[:count].copy())
        for stored, fields in zip(self._words, words, strict=True):
            stored += [fields[row] for row in range(count)]
        self._rows += count

    def warnings(self) -> list[Warning_]:
        """The warnings, each a code and a message that says what helps."""
        dates = [*self._as_they_stand(self._dates_of_numbers()), *self._as_they_stand(self._dates_of_words())]
        ids = [*self._as_they_stand(self._ids_of_numbers()), *self._as_they_stand(self._ids_of_words())]
        ids = [name for name in ids if name not in dates]
        columns = {"index_left_out": self._columns.index, "columns_like_ids": ids, "columns_like_dates": dates}
        return [_warning(code, names) for code, names in columns.items() if names]

    def _as_they_stand(self, names: Sequence[str]) -> list[str]:
        return [name for name in self._columns.names if name in names]

    def last_values(self, n_columns: int) -> tuple[int, bool]:
        """Number of values of the last of `n_columns` columns without names, and whether they are words.

        0 if it is no feature of whole numbers or words.
        """
        name, words = str(n_columns), self._columns.word_names
        if name in words:
            return len(set(self._words[words.index(name)])), True
        if name not in self._names:
            return 0, False
        column = self._whole()[:, self._names.index(name)]
        return len(np.unique(column)) * bool((column % 1 == 0).all()), False

    def _ids_of_numbers(self) -> list[str]:
        values = self._whole()
        return [self._names[k] for k in range(values.shape[1]) if _is_id(values[:, k], self._names[k])]

    def _dates_of_numbers(self) -> list[str]:
        """Names of columns of days written as 20240131."""
        values = self._whole()
        are_days = (values >= _FIRST_DAY) & (values <= _LAST_DAY) & (values % 1 == 0)
        month, day = values // 100 % 100, values % 100
        # Rounded to float32, days are off by one.
        are_days &= (month >= 1) & (month <= 12) & (day >= 0) & (day <= 32)
        return [self._names[k] for k in np.flatnonzero(are_days.all(axis=0)).tolist()] if len(values) else []

    def _whole(self) -> Array:
        return np.concatenate(self._numbers) if self._numbers else np.empty((0, len(self._names)))

    def _ids_of_words(self) -> list[str]:
        return [
            name
            for name, words in zip(self._columns.word_names, self._words, strict=True)
            if len(words) >= _LEAST_ROWS and len(set(words)) == len(words)
        ]

    def _dates_of_words(self) -> list[str]:
        return [
            name
            for name, words in zip(self._columns.word_names, self._words, strict=True)
            if words and all(_DATE.fullmatch(word) for word in words)
        ]


def _is_id(values: Array, name: str) -> bool:
    """Whether all values are integers, each once, in a column named as an id; or count up by one, or fill a range."""
    if len(values) < 3 or not (values % 1 == 0).all():
        return False
    if _ID.fullmatch(name) or _CAMEL_ID.fullmatch(name):
        # Rounded to float32, large integers equal their neighbours.
        return len(np.unique(values)) == len(values) or bool(np.median(values) > _LARGE)
    if len(values) < _LEAST_ROWS:
        return False
    if (np.diff(values) == 1).all():
        return True
    is_range = values.max() - values.min() == len(values) - 1
    return bool(is_range) and len(np.unique(values)) == len(values)


def _warning(code: str, names: Sequence[str]) -> Warning_:
    what, help_ = _TEXTS[code]
    return {"code": code, "message": f"{what}: {first_names(names)}. {help_}"}


_TEXTS = {
    "index_left_out": ("an index of pandas is no feature and was left out", "To keep it, name it in columns"),
    "columns_like_ids": ("columns look like ids, which say nothing of new rows", "Leave them out: drop_columns"),
    "columns_like_dates": (
        "columns look like dates, which are taken for numbers or words",
        "Leave them out, or make numbers of them: drop_columns",
    ),
}
