"""LIBSVM text for the demo: rows like bags of words, the same on every machine.

The model. Word r of V is drawn with probability proportional to 1 / (r + 1) (Zipf). Some of the words speak for one of
two classes; a row of the other class mostly avoids them. A row is the set of its words, scaled to unit length, so that
all of its values are the same number: numpy draws the rows and `bytes.join` writes them, without a compiled kernel.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from streamsvm.storage.rows.csr import Array

FLIPPED = 0.1  # share of the labels turned over
_WORDS = 1 << 18
_ROW_WORDS, _ROW_SIGMA = 200.0, 0.6  # drawn a row: median, and spread of its logarithm
_LONGEST = 2000
_SPEAKING = slice(50, 30_000)  # stop words and rarities say nothing
_SPEAKING_SHARE, _AVOIDANCE = 0.2, 0.6
_CHUNK_ROWS = 1000
TRAINING, TEST = 0, 1


class Corpus:
    """Words and what they say: one seed, one corpus."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        rng = np.random.default_rng(seed)
        self._says = np.zeros(_WORDS, np.int8)  # +1 or -1: for which class a word speaks, by rank
        said = rng.choice((-1, 0, 1), _WORDS, p=(_SPEAKING_SHARE / 2, 1 - _SPEAKING_SHARE, _SPEAKING_SHARE / 2))
        self._says[_SPEAKING] = said[_SPEAKING]
        self._feature = rng.permutation(_WORDS).astype(np.int64)  # number of a word, less 1, by rank
        self._names = [b"%d:" % (feature + 1) for feature in range(_WORDS)]

    def chunks(self, part: int) -> Iterator[bytes]:
        """Rows without end, some a time; `part`: TRAINING, or TEST, which are other rows."""
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
        """Features of the rows one after the other, each row's ascending and different, and where each row ends."""
        row = np.repeat(np.arange(len(lengths)), lengths)
        words = _ranks(rng, len(row))
        against = self._says[words] * classes[row] < 0
        avoided = against & (rng.random(len(row)) < _AVOIDANCE)
        kept = ~avoided
        # A row of nothing but words to avoid has none left; word 0 says nothing.
        firsts = np.cumsum(lengths) - lengths
        words[firsts], kept[firsts] = 0, True
        places = np.sort(row[kept] * _WORDS + self._feature[words[kept]])
        places = places[np.diff(places, prepend=-1) > 0]  # np.unique takes ten times as long
        ends = np.searchsorted(places, np.arange(1, len(lengths) + 1) * _WORDS)
        return (places % _WORDS).tolist(), ends


def _ranks(rng: np.random.Generator, count: int) -> Array:
    """(count,) int64 below _WORDS: r with probability log((r + 2) / (r + 1)) / log(_WORDS + 1)."""
    drawn: Array = np.exp(rng.random(count) * np.log(_WORDS + 1.0)).astype(np.int64) - 1
    return np.minimum(drawn, _WORDS - 1)


def write_text(path: Path, corpus: Corpus, part: int, size: int | None = None, rows: int | None = None) -> None:
    """At least so many bytes, or exactly so many rows."""
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
