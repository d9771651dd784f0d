"""Checkpoints of a job: two slots, so that a sound one stands while the other is being written.

A run that goes on from a checkpoint compares w with sum_i alpha_i y_i x_i while the data stream by. A checkpoint that
it writes before that goes into UNSURE_SLOT: if w turns out wrong, that slot and the one it came from are dropped.

A checkpoint is an npz file: the arrays as they are, each with its checksum, and `about`, a JSON document.
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
    """A checkpoint on disk. `about["number"]` is its number among the job's checkpoints: the newest has the largest."""

    path: Path
    about: Mapping[str, Any]

    def __getitem__(self, name: str) -> Array:
        """An array; raises CorruptData if it is not the one written."""
        with _reading(self.path) as archive:
            array = member_array(archive, name)
        # Earlier versions left the axis of tasks out where there was one task.
        return array[:, np.newaxis] if name in _OF_TASKS and array.ndim == 1 else array

    def length(self, name: str) -> int:
        """The length of an array, without reading it; raises CorruptData."""
        with _reading(self.path) as archive, archive.open(f"{name}.npy") as member:
            return read_header(member)[0][0]

    @property
    def names(self) -> list[str]:
        """Names of its arrays."""
        return self.about[_NAMES]

    def arrays(self) -> dict[str, Array]:
        """All arrays by name; raises CorruptData."""
        return {name: self[name] for name in self.names}


def write_checkpoint(path: Path, about: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write durably, as a whole or not at all."""
    staged = path.with_name(f".{path.name}.staged")
    try:
        with staged.open("wb") as file:
            document = np.frombuffer(pack({**about, _NAMES: list(arrays)}, VERSION), np.uint8)
            np.savez(file, allow_pickle=False, **{_ABOUT: document, **arrays})
        publish(staged, path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a checkpoint: each of its arrays is checked when it is read. Raises CorruptData, FileNotFoundError."""
    with _reading(path) as archive:
        return Checkpoint(
            path, unpack(member_array(archive, _ABOUT).tobytes(), VERSION, "checkpoint", _OLDER, _OLDEST_VERSION)
        )


def read_checkpoint(path: Path) -> Checkpoint:
    """Open a checkpoint; every byte has been checked. Raises CorruptData, FileNotFoundError."""
    checkpoint = open_checkpoint(path)
    with _reading(path) as archive:
        for name in checkpoint.names:
            _check(archive, name)
    return checkpoint


def newest_checkpoint(directory: Path) -> Checkpoint | None:
    """The newest sound one in a job's directory, if there is one."""
    found = []
    for slot in SLOTS:
        try:
            found.append(read_checkpoint(directory / slot))
        except (StorageError, OSError):
            continue
    return max(found, key=lambda checkpoint: checkpoint.about["number"], default=None)


def older_slot(directory: Path) -> Path:
    """The one of SURE_SLOTS to write next: that with the older checkpoint, or with none."""

    def number(path: Path) -> int:
        try:
            return open_checkpoint(path).about["number"]
        except (StorageError, OSError):
            return -1

    return min((directory / slot for slot in SURE_SLOTS), key=number)


# Errors that zipfile and numpy raise for bytes that are no archive of arrays.
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
        # A damaged archive can send its reader to before the beginning of the file; all else is about the disk.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise CorruptData("a checkpoint is damaged", _OLDER) from error


def _check(archive: zipfile.ZipFile, name: str) -> None:
    """Read to the end: that is where the checksum is compared."""
    with archive.open(f"{name}.npy") as member:
        while member.read(_CHUNK):
            pass
