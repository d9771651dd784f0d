"""The cache: segments in LMDB. One process writes it, one transaction per step; others read consistent snapshots.

LMDB keeps the pages of a snapshot until its last reader has left it, so a reader sees one whole step while the next one
is being written, without locks or copies. The file never grows beyond `cache_bytes`. It is not durable: each attempt of
a job makes a new file.
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
from streamsvm.storage.files.arrays import reserve
from streamsvm.storage.rows.cache_plan import PAGE, CachePlan
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment, view

_STEP_KEY = b"step"
_LOCK_BYTES = 8192  # size of LMDB's lock file for 8 readers


@dataclass(frozen=True)
class Step:
    """One commit of the cache, as the trainer sees it.

    number       number of the commit in this attempt of the job, from 1
    n_rows, width  numbers of rows and features; while the dataset is being imported, of those known so far
    pass_        number of the pass over the data, from 1
    pieces       number of pieces of the pass read so far; section: this number when the current section began
    rows         number of rows read for this step, including rows that were resident already
    screened     number of these rows that are held at a bound of alpha: the reader kept them out of the cache
    screened_unvisited  number of rows screened in the pass so far that the trainer has not visited in the pass
    ends_section  this is the last step of a section: the reader now waits until the trainer has finished it
    ends_pass    this is the last step of its pass, and of a section
    pass_losses  for each task, sum_i C_i loss_i over the pass's rows so far, at the w published before the pass
    fresh        ids of the segments of newly read rows, which the trainer has never visited in the cache
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


# A step in bytes: its numbers; the counts of losses, of fresh ids and of all ids; then the losses, then the ids.
_KINDS: dict[str, Any] = {field.name: field.type for field in fields(Step) if field.type in (int, bool)}
_STEP = np.dtype([(name, "<i8") for name in (*_KINDS, "lanes", "fresh", "live")])


class CacheWriter:
    """The only writer of a cache. The caller uses each segment id once, so that an id always means the same rows."""

    def __init__(self, path: Path, plan: CachePlan) -> None:
        self._plan = plan
        self._directory = path.parent
        # LMDB maps its lock file before the file has room on the disk.
        lock = path.with_name(f"{path.name}-lock")
        lock.touch()
        reserve(lock, _LOCK_BYTES)
        with self._on_disk():
            self._environment = lmdb.open(
                str(path), map_size=_map_size(plan.cache_bytes), subdir=False, sync=False, metasync=False, max_readers=8
            )

    def read_all(self, segment_ids: list[int]) -> list[Segment]:
        """Return the segments with these ids; their arrays lie in the cache's memory, valid until the next `commit`."""
        with self._environment.begin(buffers=True) as transaction:
            # The views outlive the transaction: only this process commits, so the pages stay until it does.
            return [view(_get(transaction, _key(segment_id))) for segment_id in segment_ids]

    def commit(self, step: Step, added: dict[int, bytes], removed: list[int]) -> None:
        """Write the segments `added`, by id, delete those with the ids `removed`, and make `step` the newest snapshot.

        Raises CacheFull if the file would exceed `cache_bytes`, OutOfSpace if its disk is full.
        """
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
        """Make a reader for this process. It shares the LMDB environment, since a process may open a file only once."""
        return CacheReader(self._environment)

    def close(self) -> None:
        self._environment.close()

    @contextmanager
    def _on_disk(self) -> Iterator[None]:
        """Raise OutOfSpace in place of an LMDB error if the disk is full: LMDB gives no cause of a failed write.

        The transaction has then changed nothing.
        """
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
        losses = np.array(step.pass_losses, "<f8").tobytes()
        # Padded to one size, as segments are: mixed sizes would fragment LMDB's free list.
        return header.tobytes() + losses + ids.tobytes().ljust(8 * (self._plan.most_live + 1), b"\0")


class CacheReader:
    """Reads one snapshot of the cache at a time. Segments are valid until the next `renew` or `release`.

    A new reader has no snapshot: call `renew` first.
    """

    def __init__(self, environment: lmdb.Environment) -> None:
        self._environment = environment
        self._transaction: lmdb.Transaction | None = None
        # By id, a segment's address in the file (None: it never moves) and the segment. An id's rows never change.
        self._views: dict[int, tuple[int | None, Segment]] = {}

    @classmethod
    def open(cls, path: Path, cache_bytes: int) -> "CacheReader":
        """Open the cache file that another process writes."""
        return cls(lmdb.open(str(path), map_size=_map_size(cache_bytes), subdir=False, readonly=True, max_readers=8))

    def renew(self) -> Step:
        """Move to the newest snapshot; return its step."""
        self.release()
        self._transaction = self._environment.begin(buffers=True)
        step = _parse(_get(self._transaction, _STEP_KEY))
        ids = (*step.fresh, *step.resident)
        self._views = {segment_id: self._views[segment_id] for segment_id in ids if segment_id in self._views}
        return step

    def release(self) -> None:
        """Leave the snapshot: the writer may reuse its pages, and commit any number of steps until `renew`."""
        if self._transaction is not None:
            self._transaction.abort()
            self._transaction = None

    def read(self, segment_id: int) -> Segment:
        """Return a segment of the snapshot, read-only and not copied; the same object while the segment stays put."""
        assert self._transaction is not None
        last = self._views.get(segment_id)
        if last is not None and last[0] is None:
            return last[1]
        buffer = _get(self._transaction, _key(segment_id))
        # LMDB moves a value only if others share its page.
        address = None if len(buffer) > PAGE // 2 else np.frombuffer(buffer, np.uint8, 1).__array_interface__["data"][0]
        if last is None or last[0] != address:
            last = self._views[segment_id] = address, view(buffer)
        return last[1]

    def close(self) -> None:
        self.release()
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
    losses: Array = np.frombuffer(record, "<f8", int(header["lanes"]), _STEP.itemsize)
    ids: Array = np.frombuffer(record, "<i8", int(header["live"]), _STEP.itemsize + losses.nbytes)
    numbers = {name: kind(header[name]) for name, kind in _KINDS.items()}
    fresh, resident = np.split(ids, [int(header["fresh"])])
    return Step(
        **numbers, pass_losses=tuple(losses.tolist()), fresh=tuple(fresh.tolist()), resident=tuple(resident.tolist())
    )
