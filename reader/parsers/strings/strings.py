"""Makes rows of strings of bases (see storage.rows.csr), turns rows into strings, recognises datasets of strings."""

from typing import Any

import numpy as np

from streamsvm.reader.parsers.strings.fasta_kernel import BASES, BASES_A_WORD
from streamsvm.storage.rows.csr import INDPTR, Array, Rows


def string_input(length: int) -> dict[str, Any]:
    """Return `Manifest.input` of a dataset of strings of `length` bases."""
    return {"format": "fasta", "length": length, "alphabet": BASES}


def string_rows(label: Array, words: Array, values: Array) -> Rows:
    """Return rows of strings of L letters: label (n,), words and values (n * ceil(L / 16),) as in storage.rows.csr."""
    each = len(words) // max(1, len(label))
    return Rows(label, np.arange(len(label) + 1, dtype=INDPTR) * each, words, values)


def letters_of(words: Array, values: Array, length: int) -> str:
    """Return the string of a row, which has `length` letters, with N for each unknown base."""
    place = np.arange(BASES_A_WORD)
    base = words.astype(np.uint32)[:, None] >> (2 * place).astype(np.uint32) & 3
    is_unknown = (values.astype(np.int64) - 1)[:, None] >> place & 1
    letters = np.frombuffer(f"{BASES}N".encode(), np.uint8)[np.where(is_unknown, len(BASES), base)]
    return letters.reshape(-1)[:length].tobytes().decode()


def is_of_strings(input: dict[str, Any] | None) -> bool:
    """Return whether the rows of a dataset with this `input` are strings of bases."""
    return input is not None and input.get("format") == "fasta"
