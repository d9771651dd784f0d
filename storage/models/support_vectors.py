"""The support vectors of a kernel machine, f(x) = sum_s beta_s k(z_s, x) with k(z, x) = exp(-gamma |z - x|^2)."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.storage.rows.csr import INDEX, Array

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

    def renumbered(self, own: Array, width: int) -> "SupportVectors":
        """These vectors with the features own (nnz,), all below `width`; those below 0 are left out."""
        vector = np.repeat(np.arange(len(self)), np.diff(self.indptr))
        kept = own >= 0
        order = np.lexsort((own[kept], vector[kept]))
        lengths = np.bincount(vector[kept], minlength=len(self))
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        return SupportVectors(self.gamma, width, indptr, own[kept][order].astype(INDEX), self.values[kept][order])


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
