"""The cache: segments in LMDB. One process writes it, a step a transaction; others read consistent snapshots.

LMDB keeps the pages of an old snapshot until its last reader has moved on, so a reader sees one step whole while the
next is being written, without a lock and without a copy. The file never grows beyond `cache_bytes`. It survives
nothing and need not: it is made anew at every attempt of a job.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import lmdb
import numpy as np

from streamsvm.storage.errors import CacheFull, OutOfSpace
from streamsvm.storage.rows.axis import WIDTHS
from streamsvm.storage.rows.cache_plan import PAGE, CachePlan
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment, view

_STEP_KEY = b"step"


@dataclass(frozen=True)
class Step:
    """One commit of the cache.

    number       counts the commits of an attempt, from 1
    n_rows, width  rows and features of the problem, as far as they are known
    pass_        pass over the data it belongs to, from 1
    pieces       of the pass that have streamed by so far; section: when its section began
    rows         rows streamed for it, those already resident included
    screened     of these, rows that rest at their bound and were kept out of the cache
    screened_unvisited  rows screened in the pass so far and not visited in it otherwise
    ends_section  the reader does nothing more before the trainer has done with all that came so far
    ends_pass    it is the last of its pass, and of a section
    pass_losses  sum of the losses of the pass's rows so far, at the w published before it, of each lane
    fresh        ids of the segments with rows that have just been read, never visited in the cache
    resident     ids of all other segments
    """

    number: int
    n_rows: int
    width: int
    pass_: int
    section: int
    pieces: int
    rows: int
    screened: int
    screened_unvisited: int
    ends_section: bool
    ends_pass: bool
    pass_losses: tuple[float, ...]
    fresh: tuple[int, ...]
    resident: tuple[int, ...]


# A step's record: its numbers, those of losses, of fresh ids and of all ids, the losses, and then the ids.
_KINDS: dict[str, Any] = {field.name: field.type for field in fields(Step) if field.type in (int, bool)}
_STEP = np.dtype(
    [
        *((name, "<i8") for name in (*_KINDS, "lanes", "fresh", "live")),
        ("pass_losses", "<f8", (max(WIDTHS),)),
    ]
)


class CacheWriter:
    """The one writer. Segments have ids that are never used twice, so an id always means the same rows."""

    def __init__(self, path: Path, plan: CachePlan) -> None:
        self._plan = plan
        self._directory = path.parent
        with self._on_disk():
            self._environment = lmdb.open(
                str(path), map_size=_map_size(plan.cache_bytes), subdir=False, sync=False, metasync=False, max_readers=8
            )
        self._step_bytes = _STEP.itemsize + 8 * (plan.most_live + 1)

    def read(self, segment_id: int) -> Segment:
        """A copy-free view, valid until the next `commit`."""
        return self.read_all([segment_id])[0]

    def read_all(self, segment_ids: list[int]) -> list[Segment]:
        """Copy-free views, valid until the next `commit`."""
        with self._environment.begin(buffers=True) as transaction:
            # No commit can run meanwhile: this process is the only writer, so the pages stay as they are.
            return [view(_get(transaction, _key(segment_id))) for segment_id in segment_ids]

    def commit(self, step: Step, added: dict[int, bytes], removed: list[int]) -> None:
        """Make `step` the one readers see next. Raises CacheFull when the file would outgrow `cache_bytes`."""
        try:
            with self._on_disk(), self._environment.begin(write=True) as transaction:
                for segment_id in removed:
                    transaction.delete(_key(segment_id))
                for segment_id, data in added.items():
                    transaction.put(_key(segment_id), data)
                transaction.put(_STEP_KEY, self._record(step))
        except lmdb.MapFullError as error:
            raise CacheFull(f"the cache outgrew {self._plan.cache_bytes} bytes in step {step.number}") from error

    def reader(self) -> "CacheReader":
        """A reader inside this process: LMDB lets a process open a file only once."""
        return CacheReader(self._environment)

    def close(self) -> None:
        self._environment.close()

    @contextmanager
    def _on_disk(self) -> Iterator[None]:
        """A full disk is OutOfSpace, and nothing has changed. LMDB takes a short write for one that has failed."""
        try:
            yield
        except lmdb.Error as error:
            if shutil.disk_usage(self._directory).free >= self._plan.segment_bytes:
                raise
            raise OutOfSpace("the cache does not fit on its disk") from error

    def _record(self, step: Step) -> bytes:
        ids = np.array([*step.fresh, *step.resident], "<i8")
        header = np.zeros(1, _STEP)
        for name in _KINDS:
            header[name] = getattr(step, name)
        header["lanes"], header["fresh"], header["live"] = len(step.pass_losses), len(step.fresh), len(ids)
        header["pass_losses"][0, : len(step.pass_losses)] = step.pass_losses
        # Always of one size, as everything in this file is: mixed sizes would fragment its free list.
        return (header.tobytes() + ids.tobytes()).ljust(self._step_bytes, b"\0")


class CacheReader:
    """Snapshots of the cache, one at a time: views are valid until the next `renew`."""

    def __init__(self, environment: lmdb.Environment) -> None:
        self._environment = environment
        self._transaction = environment.begin(buffers=True)

    @classmethod
    def open(cls, path: Path, cache_bytes: int) -> "CacheReader":
        """The cache another process writes."""
        return cls(lmdb.open(str(path), map_size=_map_size(cache_bytes), subdir=False, readonly=True, max_readers=8))

    def renew(self) -> Step:
        """Move to the newest snapshot and say what it holds."""
        self._transaction.abort()
        self._transaction = self._environment.begin(buffers=True)
        return _parse(_get(self._transaction, _STEP_KEY))

    def read(self, segment_id: int) -> Segment:
        """A copy-free, read-only view of one segment of the snapshot."""
        return view(_get(self._transaction, _key(segment_id)))

    def close(self) -> None:
        self._transaction.abort()
        self._environment.close()


def _get(transaction: lmdb.Transaction, key: bytes) -> memoryview:
    value = transaction.get(key)
    if value is None:
        raise KeyError(key)
    return memoryview(value)


def _map_size(cache_bytes: int) -> int:
    return cache_bytes // PAGE * PAGE


def _key(segment_id: int) -> bytes:
    return segment_id.to_bytes(8, "big")


def _parse(record: memoryview) -> Step:
    header = np.frombuffer(record, _STEP, 1)[0]
    ids: Array = np.frombuffer(record, "<i8", int(header["live"]), _STEP.itemsize)
    fresh = int(header["fresh"])
    known = {name: kind(header[name]) for name, kind in _KINDS.items()}
    known["pass_losses"] = tuple(header["pass_losses"][: int(header["lanes"])].tolist())
    return Step(**known, fresh=tuple(ids[:fresh].tolist()), resident=tuple(ids[fresh:].tolist()))
