"""Data sets as the benches use them: LIBSVM text, and the same rows as arrays that a process has in memory at once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

from streamsvm.reader.ingest.run import read_chunks
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.libsvm import LibsvmParser
from tests.bench.generate import generate, parse_size
from tests.bench.real_data import rows_of
from tests.reference.data import write_libsvm

COLUMNS = {"label": np.dtype("i1"), "length": np.dtype("i4"), "indices": np.dtype("i4"), "values": np.dtype("f4")}
ROWS_AT_ONCE = 1 << 15


def size_limit() -> int:
    """Bytes of generated text: the environment variable SIZE, as in 300MB or 10GB."""
    return parse_size(os.environ.get("SIZE", "1GB"))


@dataclass(frozen=True)
class Prepared:
    """A data set in a directory: `text`, and a file for each of COLUMNS. Labels are -1 and +1, indices start at 0."""

    directory: Path
    n_rows: int
    n_features: int
    nnz: int

    @property
    def text(self) -> Path:
        return self.directory / "text.svm"

    @property
    def text_bytes(self) -> int:
        return self.text.stat().st_size

    def load(self) -> tuple[sparse.csr_matrix, np.ndarray]:
        """(X (n_rows, n_features) float32, y (n_rows,) float64), all of it in memory."""
        columns = {name: np.fromfile(self.directory / name, dtype) for name, dtype in COLUMNS.items()}
        indptr = np.concatenate([[0], np.cumsum(columns["length"], dtype=np.int64)])
        parts = (columns["values"], columns["indices"], indptr)
        return sparse.csr_matrix(parts, (self.n_rows, self.n_features)), columns["label"].astype(float)

    def chunks(self, rows: int = ROWS_AT_ONCE) -> Iterator[tuple[sparse.csr_matrix, np.ndarray]]:
        """As `load`, `rows` rows at a time."""
        with ExitStack() as stack:
            files = {name: stack.enter_context((self.directory / name).open("rb")) for name in COLUMNS}
            for first in range(0, self.n_rows, rows):
                count = min(rows, self.n_rows - first)
                y, lengths = (np.fromfile(files[name], COLUMNS[name], count) for name in ("label", "length"))
                indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
                indices, values = (
                    np.fromfile(files[name], COLUMNS[name], indptr[-1]) for name in ("indices", "values")
                )
                yield sparse.csr_matrix((values, indices, indptr), (count, self.n_features)), y.astype(float)

    def primal_objective(self, w: np.ndarray, C: float) -> float:
        """1/2 |w|^2 + C sum max(0, 1 - y_i <w, x_i>), in float64 and bounded memory; `w` (n_features,)."""
        losses = sum(float(np.maximum(0.0, 1.0 - y * (X @ w)).sum()) for X, y in self.chunks())
        return float(w @ w) / 2 + C * losses


def prepare_real(directory: Path, name: str) -> Prepared:
    """A data set of real_data.py, its text written again with labels -1 and +1."""
    directory.mkdir()
    write_libsvm(directory / "text.svm", *rows_of(name))
    return _with_arrays(directory)


def prepare_generated(directory: Path, size_bytes: int, **settings: float) -> Prepared:
    """Text-like rows of `size_bytes` of text; `settings` are those of `generate`."""
    directory.mkdir()
    generate(directory / "text.svm", size_bytes=size_bytes, **settings)
    return _with_arrays(directory)


def read_prepared(directory: Path) -> Prepared:
    """The data set prepared in a directory."""
    return Prepared(directory, **json.loads((directory / "shape.json").read_text()))


def _with_arrays(directory: Path) -> Prepared:
    parser = LibsvmParser(InputOptions(index_base=1), InputLimits())
    with ExitStack() as stack:
        files = {name: stack.enter_context((directory / name).open("wb")) for name in COLUMNS}
        with (directory / "text.svm").open("rb") as text:
            for rows in parser.parse_chunks(read_chunks(text)):
                columns = (np.where(rows.label > 0, 1, -1), np.diff(rows.indptr), rows.indices - 1, rows.values)
                for (name, dtype), column in zip(COLUMNS.items(), columns, strict=True):
                    column.astype(dtype).tofile(files[name])
    shape = {"n_rows": parser.rows, "n_features": parser.max_index or 0, "nnz": parser.nnz}
    (directory / "shape.json").write_text(json.dumps(shape))
    return read_prepared(directory)
