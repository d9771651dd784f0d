"""Remembers the first n-gram that was hashed to each feature, in bounded memory."""

import numpy as np

from streamsvm.reader.parsers.text.hasher import Notes
from streamsvm.reader.parsers.text.words_kernel import NOTED_BYTES
from streamsvm.storage.blocks.feature_words import FeatureWords
from streamsvm.storage.rows.csr import Array

MOST_BYTES = 64 << 20


class FirstWords:
    """Call `add` with notes in the order of the documents: the first n-gram of a feature stays."""

    def __init__(self, n_features: int) -> None:
        self._has_word = np.zeros(n_features, bool)
        self._features: list[Array] = []
        self._signs: list[Array] = []
        self._words: list[list[bytes]] = []
        self._bytes = 0

    def add(self, notes: Notes) -> None:
        """Store the n-grams of features that have none yet, until MOST_BYTES are used."""
        features = np.where(notes.noted < 0, ~notes.noted, notes.noted)
        new = np.flatnonzero(~self._has_word[features])
        if not len(new) or self._bytes > MOST_BYTES:
            return
        begin = np.concatenate([np.zeros(1, np.int64), notes.end[:-1]])
        text = notes.text.tobytes()
        words = [
            _shown(text[first:last]) for first, last in zip(begin[new].tolist(), notes.end[new].tolist(), strict=True)
        ]
        self.put(features[new], np.where(notes.noted[new] < 0, -1, 1), words)

    def in_order(self) -> FeatureWords:
        """All stored n-grams, sorted by feature."""
        if not self._features:
            return FeatureWords(np.zeros(0, np.int32), np.zeros(0, np.int32), [])
        features = np.concatenate(self._features).astype(np.int32)
        order = np.argsort(features)
        words = [word for batch in self._words for word in batch]
        signs = np.concatenate(self._signs).astype(np.int32)[order]
        return FeatureWords(features[order], signs, [words[place] for place in order.tolist()])

    def put(self, features: Array, signs: Array, words: list[bytes]) -> None:
        """Store an n-gram and its sign for each of these features (k,), which have none yet."""
        self._has_word[features] = True
        self._features.append(features)
        self._signs.append(signs)
        self._words.append(words)
        self._bytes += sum(map(len, words))


def _shown(word: bytes) -> bytes:
    """The n-gram; if the kernel cut it, it ends between characters, with an ellipsis."""
    if len(word) < NOTED_BYTES:
        return word
    return word[: NOTED_BYTES - 1].decode(errors="ignore").encode() + "\u2026".encode()
