"""The support vectors of a kernel machine, f(x) = sum_s beta_s k(z_s, x) with k(z, x) = exp(-gamma |z - x|^2)."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from storage.csr import INDEX, VALUE, Array, Rows
from storage.gaussian_kernel import LANES, kernel_values
from storage.segment import Segment

_PIECE = 256  # rows whose kernel values are made at a time
_FIELDS = ("gamma", "width", "indptr", "indices", "values")
_MACHINE = "machine.npz"  # in a run directory


@dataclass(frozen=True)
class SupportVectors:
    """z_s in compressed sparse rows, numbered as the rows they are compared with.

    gamma    of the kernel
    width    all features are below it
    indptr   (n_vectors + 1,) int64; indices, ascending in a vector, (nnz,) int32 and values (nnz,) float32
    """

    gamma: float
    width: int
    indptr: Array
    indices: Array
    values: Array

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @cached_property
    def norms(self) -> Array:
        """|z_s|^2, (n_vectors,) float64."""
        squares = np.concatenate([[0.0], np.cumsum(np.square(self.values, dtype=np.float64))])
        return np.diff(squares[self.indptr])

    def squared_norm(self, beta: Array) -> float:
        """|f|^2 = sum_sr beta_s beta_r k(z_s, z_r) for beta (n_vectors,)."""
        columns = self.against(self.width)
        rows = Rows(np.zeros(len(self)), self.indptr, self.indices, self.values)
        return float(beta @ columns.decision_values(rows, beta))

    def against(self, width: int) -> "Columns":
        """Ready to be compared with rows whose features are below `width`."""
        return Columns(self, width)

    def renumbered(self, place: Array) -> "SupportVectors":
        """The same with feature f at place[f] (width,), a permutation; features at a negative place are left out."""
        own = place[self.indices]
        vector = np.repeat(np.arange(len(self)), np.diff(self.indptr))
        kept = own >= 0
        order = np.lexsort((own[kept], vector[kept]))
        lengths = np.bincount(vector[kept], minlength=len(self))
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        return SupportVectors(self.gamma, len(place), indptr, own[kept][order].astype(INDEX), self.values[kept][order])


class Columns:
    """Support vectors feature by feature: only features that one of them has take memory, 4 bytes a vector."""

    def __init__(self, vectors: SupportVectors, width: int) -> None:
        self._gamma = vectors.gamma
        self._count = len(vectors)
        n_slots = -(-max(1, self._count) // LANES) * LANES
        # Memory that is never written to is none: pages of zeros.
        self._Z = np.zeros((width, n_slots), VALUE)
        vector = np.repeat(np.arange(self._count), np.diff(vectors.indptr))
        known = vectors.indices < width
        self._Z[vectors.indices[known], vector[known]] = vectors.values[known]
        self._norms = np.zeros(n_slots)
        self._norms[: self._count] = vectors.norms

    def values(self, rows: Rows | Segment) -> Array:
        """(n_rows, n_vectors) float64: k(z_s, x_i)."""
        return self._values(rows.indptr, rows)

    def decision_values(self, rows: Rows | Segment, beta: Array) -> Array:
        """sum_s beta_s k(z_s, x_i): (n_rows,) for beta (n_vectors,), (n_rows, n) for beta (n, n_vectors)."""
        found = np.empty((len(rows), *beta.shape[:-1]))
        for begin in range(0, len(rows), _PIECE):
            some = slice(begin, begin + _PIECE)
            found[some] = self._values(rows.indptr[begin : begin + _PIECE + 1], rows) @ beta.T
        return found

    def _values(self, indptr: Array, rows: Rows | Segment) -> Array:
        found = np.empty((len(indptr) - 1, len(self._norms)))
        kernel_values(indptr, rows.indices, rows.values, self._Z, self._norms, self._gamma, found)
        return found[:, : self._count]


def joined(parts: Sequence[SupportVectors]) -> SupportVectors:
    """The vectors of all, one after the other; they have one gamma."""
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    indices, values = (np.concatenate([getattr(part, name) for part in parts]) for name in ("indices", "values"))
    return SupportVectors(
        parts[0].gamma, max(part.width for part in parts), np.concatenate([[0], np.cumsum(lengths)]), indices, values
    )


def packed(vectors: SupportVectors) -> bytes:
    """As a file: an archive of its arrays."""
    return _archive({name: getattr(vectors, name) for name in _FIELDS})


def unpacked(data: bytes) -> SupportVectors:
    """Back from `packed`."""
    with np.load(io.BytesIO(data)) as arrays:
        return _vectors(arrays)


@dataclass(frozen=True)
class Machine:
    """A kernel machine as it is trained: vectors, and beta (n_vectors,) of each.

    merges, degradation: how many vectors were merged, and the sum of what that changed, |f before - f after|^2 each
    """

    vectors: SupportVectors
    beta: Array
    merges: int
    degradation: float

    def publish(self, run: Path) -> None:
        """Let the reader and the worker see it: those of the job in this run directory."""
        own = {"beta": self.beta, "merges": self.merges, "degradation": self.degradation}
        staged = run / f".{_MACHINE}"
        staged.write_bytes(_archive({name: getattr(self.vectors, name) for name in _FIELDS} | own))
        staged.replace(run / _MACHINE)


def published_machine(run: Path) -> Machine:
    """The one published last."""
    with np.load(io.BytesIO((run / _MACHINE).read_bytes())) as arrays:
        return Machine(_vectors(arrays), arrays["beta"], int(arrays["merges"]), float(arrays["degradation"]))


def _archive(arrays: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _vectors(arrays: Mapping[str, Array]) -> SupportVectors:
    gamma, width, *rest = (arrays[name] for name in _FIELDS)
    return SupportVectors(float(gamma), int(width), *rest)
