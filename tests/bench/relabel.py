"""Rows of two classes told apart anew: as many classes as wanted, each with a sparse plane of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from streamsvm.reader.ingest.run import read_chunks
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.libsvm import LibsvmParser
from streamsvm.storage.rows.csr import Rows

_SHARE = 0.05  # of the features have a part in a class's plane
_NOISE = 0.1  # of the spread of decision values


def relabel(path: Path, n_classes: int, seed: int = 0) -> None:
    """LIBSVM text, its rows as they are, but for labels 0 .. n_classes - 1: the class whose plane a row is most for."""
    rng = np.random.default_rng(seed)
    staged = path.with_suffix(".relabelled")
    planes = np.zeros((0, n_classes), np.float32)
    parser = LibsvmParser(InputOptions(index_base=1), InputLimits())
    with path.open("rb") as source, path.open("rb") as lines, staged.open("wb") as target:
        for rows in parser.parse_chunks(read_chunks(source)):
            planes = _grown(planes, int(rows.indices.max(initial=0)) + 1, rng)
            values = _values(rows, planes)
            noise = rng.normal(0.0, _NOISE * values.std(), values.shape)
            for label in np.argmax(values + noise, axis=1).tolist():
                _, pairs = next(lines).split(b" ", 1)
                target.write(b"%d %b" % (label, pairs))
    staged.replace(path)


def _grown(planes: np.ndarray, width: int, rng: np.random.Generator) -> np.ndarray:
    if width <= len(planes):
        return planes
    shape = (width - len(planes), planes.shape[1])
    more = np.where(rng.random(shape, np.float32) < _SHARE, rng.standard_normal(shape, np.float32), np.float32(0.0))
    return np.concatenate((planes, more))


def _values(rows: Rows, planes: np.ndarray) -> np.ndarray:
    return sparse.csr_matrix((rows.values, rows.indices, rows.indptr), (len(rows), len(planes))) @ planes
