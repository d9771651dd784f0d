"""The support vectors of a kernel machine, f(x) = sum_s beta_s k(z_s, x) with k(z, x) = exp(-gamma |z - x|^2)."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.storage.files.arrays import load_arrays
from streamsvm.storage.rows.csr import INDEX, Array

_FIELDS = ("gamma", "width", "indptr", "indices", "values")
_MACHINE = "machine.npz"  # in a run directory


@dataclass(frozen=True)
class SupportVectors:
    """The support vectors z_s as compressed sparse rows, with the feature numbers of the rows they are compared with.

    gamma    gamma of the kernel
    width    exclusive upper bound of the feature numbers
    indptr   (n_vectors + 1,) int64; indices (nnz,) int32, ascending in each vector; values (nnz,) float32
    """

    gamma: float
    width: int
    indptr: Array
    indices: Array
    values: Array

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def renumbered(self, features: Array, width: int) -> "SupportVectors":
        """Return these vectors with other feature numbers, all below `width`.

        features   (nnz,) the new feature number of each stored value; a negative number drops the value
        """
        vector = np.repeat(np.arange(len(self)), np.diff(self.indptr))
        stays = features >= 0
        order = np.lexsort((features[stays], vector[stays]))
        lengths = np.bincount(vector[stays], minlength=len(self))
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        indices, values = features[stays][order].astype(INDEX), self.values[stays][order]
        return SupportVectors(self.gamma, width, indptr, indices, values)


def joined(several: Sequence[SupportVectors]) -> SupportVectors:
    """Concatenate several sets of support vectors, which must have the same gamma."""
    lengths = np.concatenate([np.diff(each.indptr) for each in several])
    indices, values = (np.concatenate([getattr(each, name) for each in several]) for name in ("indices", "values"))
    width, indptr = max(each.width for each in several), np.concatenate([[0], np.cumsum(lengths)])
    return SupportVectors(several[0].gamma, width, indptr, indices, values)


def packed(vectors: SupportVectors) -> bytes:
    """Return the vectors as the bytes of a file of a model (npz)."""
    return _archive({name: getattr(vectors, name) for name in _FIELDS})


def unpacked(data: bytes) -> SupportVectors:
    """Return the vectors from the result of `packed`."""
    return _vectors(load_arrays(io.BytesIO(data)))


@dataclass(frozen=True)
class KernelState:
    """A kernel machine during training: support vectors, and their coefficients beta (n_vectors,).

    merges       number of times that vectors were merged so far
    degradation  sum over these merges of |f before - f after|^2
    """

    vectors: SupportVectors
    beta: Array
    merges: int
    degradation: float

    def publish(self, run: Path) -> None:
        """Write the machine into the run directory, for the run's reader and its worker."""
        trained = {"beta": self.beta, "merges": self.merges, "degradation": self.degradation}
        staged = run / f".{_MACHINE}"
        staged.write_bytes(_archive({name: getattr(self.vectors, name) for name in _FIELDS} | trained))
        staged.replace(run / _MACHINE)


def published_machine(run: Path) -> KernelState:
    """Read the kernel machine that was last published in the run directory."""
    arrays = load_arrays(io.BytesIO((run / _MACHINE).read_bytes()))
    return KernelState(_vectors(arrays), arrays["beta"], int(arrays["merges"]), float(arrays["degradation"]))


def _archive(arrays: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _vectors(arrays: Mapping[str, Array]) -> SupportVectors:
    gamma, width, *rest = (arrays[name] for name in _FIELDS)
    return SupportVectors(float(gamma), int(width), *rest)
