"""Acceptor sites of C. elegans as sparse rows: the weighted-degree features around the site, made beforehand."""

from __future__ import annotations

import bz2

import numpy as np
from scipy import sparse

from tests.reference.data import DATA, one_vs_rest

FILE = DATA / "celegans_acceptor.fasta.bz2"
WINDOW = slice(169, 229)  # of 398 bases, the site in the middle
DEGREE = 4
HELD_OUT = 0.2
_BASES = 4

Rows = tuple[sparse.csr_matrix, np.ndarray]


def acceptors() -> tuple[Rows, Rows]:
    """Rows to train on and those held out, at random: X (n, d) float64 of unit length, y (n,) of +1 and -1."""
    entries = bz2.decompress(FILE.read_bytes()).split(b">")[1:]
    text = b"".join(entry.partition(b"\n")[2].replace(b"\n", b"")[WINDOW] for entry in entries)
    bases = np.frombuffer(text, np.uint8).reshape(len(entries), -1)
    X = weighted_degree(np.searchsorted(np.frombuffer(b"ACGT", np.uint8), bases))
    y = one_vs_rest(np.array([b"label=-1" not in entry for entry in entries]), True)
    is_out = np.random.default_rng(0).random(len(y)) < HELD_OUT
    return (X[~is_out], y[~is_out]), (X[is_out], y[is_out])


def weighted_degree(codes: np.ndarray) -> sparse.csr_matrix:
    """A feature for each word of at most DEGREE bases at each place; codes (n, length) from 0 to 3.

    The weight of a word of k bases is the root of 2 (K - k + 1) / (K (K + 1)) (Ratsch, Sonnenburg, 2004, K = DEGREE).
    """
    n, length = codes.shape
    word, columns, values, begin = np.zeros((n, length), np.int64), [], [], 0
    for k in range(1, DEGREE + 1):
        places = length - k + 1
        word = word[:, :places] * _BASES + codes[:, k - 1 :]
        columns.append(begin + np.arange(places) * _BASES**k + word)
        values.append(np.full(places, np.sqrt(2 * (DEGREE - k + 1) / (DEGREE * (DEGREE + 1)))))
        begin += places * _BASES**k
    row = np.concatenate(values)
    row /= np.linalg.norm(row)
    indices = np.concatenate(columns, axis=1)
    indptr = np.arange(n + 1) * len(row)
    return sparse.csr_matrix((np.tile(row, n), indices.ravel(), indptr), (n, begin))
