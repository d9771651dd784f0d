"""Checkpoints of a job, in two slots: while one slot is being written, the other holds a sound checkpoint.

A run that continues from a checkpoint compares w with sum_i alpha_i y_i x_i during its first pass. A checkpoint that it
writes before this comparison goes into UNSURE_SLOT: if w is wrong, both this and the earlier checkpoint are dropped.

A checkpoint is an npz file: the state's arrays, each with a checksum, and `about`, a JSON document.
"""

import errno
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.storage.errors import CorruptData, StorageError
from streamsvm.storage.files.arrays import member_array, read_header
from streamsvm.storage.files.durable import pack, publish, unpack
from streamsvm.storage.rows.csr import Array

VERSION, _OLDEST_VERSION = 2, 1
SURE_SLOTS, UNSURE_SLOT = ("checkpoint.0", "checkpoint.1"), "checkpoint.unsure"
SLOTS = (*SURE_SLOTS, UNSURE_SLOT)
_ABOUT, _NAMES = "about", "arrays"
_OF_TASKS = ("alpha", "w", "published")  # (n, tasks)
_CHUNK = 1 << 20
_OLDER = "The job goes on from an older checkpoint, or from the start."


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk. about["number"] is its number among the job's checkpoints: the newest has the largest."""

    path: Path
    about: Mapping[str, Any]

    def __getitem__(self, name: str) -> Array:
        """Read the array `name`. Raises CorruptData if it is damaged."""
        with _reading(self.path) as archive:
            array = member_array(archive, name)
        # Earlier versions left the axis of tasks out where there was one task.
        return array[:, np.newaxis] if name in _OF_TASKS and array.ndim == 1 else array

    def length(self, name: str) -> int:
        """Return the length of the array `name`, without reading all of it. Raises CorruptData if it is damaged."""
        with _reading(self.path) as archive, archive.open(f"{name}.npy") as member:
            return read_header(member)[0][0]

    @property
    def names(self) -> list[str]:
        """Names of the checkpoint's arrays."""
        return self.about[_NAMES]

    def arrays(self) -> dict[str, Array]:
        """Read all arrays; return them by name. Raises CorruptData if one is damaged."""
        return {name: self[name] for name in self.names}


def write_checkpoint(path: Path, about: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a checkpoint to `path`, durably; the file is then complete, or the older file is unchanged."""
    document = np.frombuffer(pack({**about, _NAMES: list(arrays)}, VERSION), np.uint8)
    write_arrays(path, {_ABOUT: document, **arrays})


def write_arrays(path: Path, arrays: Mapping[str, Array], is_durable: bool = True) -> None:
    """Write arrays to the .npz file `path`; the file is then complete, or the older file is unchanged.

    is_durable  False: a power cut may leave a damaged file
    """
    staged = path.with_name(f".{path.name}.staged")
    try:
        with staged.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        if is_durable:
            publish(staged, path)
        else:
            staged.replace(path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a checkpoint. Each of its arrays is checked only when it is read. Raises CorruptData, FileNotFoundError."""
    with _reading(path) as archive:
        return Checkpoint(
            path, unpack(member_array(archive, _ABOUT).tobytes(), VERSION, "checkpoint", _OLDER, _OLDEST_VERSION)
        )


def read_checkpoint(path: Path) -> Checkpoint:
    """Open a checkpoint after checking every byte of it. Raises CorruptData if it is damaged, FileNotFoundError."""
    checkpoint = open_checkpoint(path)
    with _reading(path) as archive:
        for name in checkpoint.names:
            with archive.open(f"{name}.npy") as member:
                while member.read(_CHUNK):  # at the end zipfile compares the checksum
                    pass
    return checkpoint


def newest_checkpoint(directory: Path) -> Checkpoint | None:
    """Return the newest sound checkpoint in a job's directory; None if no slot holds a sound checkpoint."""
    found = []
    for slot in SLOTS:
        try:
            found.append(read_checkpoint(directory / slot))
        except (StorageError, OSError):
            continue
    return max(found, key=lambda checkpoint: checkpoint.about["number"], default=None)


def older_slot(directory: Path) -> Path:
    """Return the path of the slot of SURE_SLOTS to write next: an empty slot, or the slot with the older checkpoint."""

    def number(path: Path) -> int:
        try:
            return open_checkpoint(path).about["number"]
        except (StorageError, OSError):
            return -1

    return min((directory / slot for slot in SURE_SLOTS), key=number)


# Errors that zipfile and numpy raise if the bytes of a file are not an archive of arrays.
NOT_SOUND = (
    zipfile.BadZipFile,
    EOFError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    KeyError,
    struct.error,
    zlib.error,
)


@contextmanager
def _reading(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (*NOT_SOUND, OSError) as error:
        # EINVAL: the archive is damaged, and gives an offset before the file's beginning. Other errors are the disk's.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise CorruptData("a checkpoint is damaged", _OLDER) from error
