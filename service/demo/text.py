"""Generates LIBSVM text for the demo: rows like bags of words, the same on every machine.

Word r of V is drawn with probability proportional to 1 / (r + 1) (Zipf). Some words belong to one of the two classes,
and rows of the other class mostly avoid them. A row is the set of its words, scaled to unit length, so that all its
values are equal: numpy draws the rows and `bytes.join` writes them, without a compiled kernel.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from streamsvm.storage.rows.csr import Array

FLIPPED = 0.1  # share of the labels that are flipped
_WORDS = 1 << 18
_ROW_WORDS, _ROW_SIGMA = 200.0, 0.6  # words drawn for a row: median, and standard deviation of the logarithm
_LONGEST = 2000
_CLASS_WORDS = slice(50, 30_000)  # ranks of words that may belong to a class: neither stop words nor rare ones
_CLASS_SHARE, _AVOIDANCE = 0.2, 0.6
_CHUNK_ROWS = 1000
TRAINING, TEST = 0, 1


class Corpus:
    """Words and their classes; the seed decides all of it."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        rng = np.random.default_rng(seed)
        self._class = np.zeros(_WORDS, np.int8)  # by rank: the class of a word, +1 or -1, or 0
        drawn = rng.choice((-1, 0, 1), _WORDS, p=(_CLASS_SHARE / 2, 1 - _CLASS_SHARE, _CLASS_SHARE / 2))
        self._class[_CLASS_WORDS] = drawn[_CLASS_WORDS]
        self._feature = rng.permutation(_WORDS).astype(np.int64)  # by rank: the number of a word, less 1
        self._names = [b"%d:" % (feature + 1) for feature in range(_WORDS)]

    def chunks(self, part: int) -> Iterator[bytes]:
        """Yield rows without end, _CHUNK_ROWS at a time; the rows of part TRAINING differ from those of TEST."""
        number = 0
        while True:
            yield self._chunk(np.random.default_rng((self._seed, part, number)))
            number += 1

    def _chunk(self, rng: np.random.Generator) -> bytes:
        classes = rng.choice(np.array((-1, 1), np.int8), _CHUNK_ROWS)
        labels = np.where(rng.random(_CHUNK_ROWS) < FLIPPED, -classes, classes)
        lengths = np.minimum(rng.lognormal(np.log(_ROW_WORDS), _ROW_SIGMA, _CHUNK_ROWS).astype(np.int64) + 1, _LONGEST)
        features, ends = self._draw(rng, classes, lengths)
        lines = []
        begin = 0
        for label, end in zip(labels.tolist(), ends.tolist(), strict=True):
            value = b"%.6g" % (end - begin) ** -0.5
            names = map(self._names.__getitem__, features[begin:end])
            lines.append(b"%+d %b%b\n" % (label, (value + b" ").join(names), value))
            begin = end
        return b"".join(lines)

    def _draw(self, rng: np.random.Generator, classes: Array, lengths: Array) -> tuple[list[int], Array]:
        """Draw rows; returns their features, row by row, ascending and distinct, and where each row ends."""
        row = np.repeat(np.arange(len(lengths)), lengths)
        words = _ranks(rng, len(row))
        of_other_class = self._class[words] * classes[row] < 0
        is_used = ~(of_other_class & (rng.random(len(row)) < _AVOIDANCE))
        # Every row has word 0, which belongs to no class, so that no row is empty.
        firsts = np.cumsum(lengths) - lengths
        words[firsts], is_used[firsts] = 0, True
        places = np.sort(row[is_used] * _WORDS + self._feature[words[is_used]])
        places = places[np.diff(places, prepend=-1) > 0]  # np.unique takes ten times as long
        ends = np.searchsorted(places, np.arange(1, len(lengths) + 1) * _WORDS)
        return (places % _WORDS).tolist(), ends


def _ranks(rng: np.random.Generator, count: int) -> Array:
    """Draw (count,) int64 below _WORDS: r with probability log((r + 2) / (r + 1)) / log(_WORDS + 1)."""
    drawn: Array = np.exp(rng.random(count) * np.log(_WORDS + 1.0)).astype(np.int64) - 1
    return np.minimum(drawn, _WORDS - 1)


def write_text(path: Path, corpus: Corpus, part: int, size: int | None = None, rows: int | None = None) -> None:
    """Write at least `size` bytes, or exactly `rows` rows, to a file."""
    with path.open("wb") as file:
        for chunk in corpus.chunks(part):
            if rows is not None:
                lines = chunk.splitlines(keepends=True)[:rows]
                file.writelines(lines)
                rows -= len(lines)
            else:
                file.write(chunk)
            if rows == 0 or (size is not None and file.tell() >= size):
                return
