"""Predicts the files of a request into one file: threads predict units, whose pieces are then joined in order."""

import fcntl
import json
import os
import shutil
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from threading import Event
from typing import IO, Any, NamedTuple

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.tables.matching import Column
from streamsvm.service.errors import ServiceError, needing_space
from streamsvm.service.models.predicting.predictor import Prediction, Predictor
from streamsvm.service.predictions.columns import OutputColumns, PredictedBatch, PredictionFigures
from streamsvm.service.predictions.dataset_rows import DatasetSource
from streamsvm.service.predictions.file_rows import UNIT_BYTES, FileSource
from streamsvm.service.predictions.request import PredictionRequest, check_destination, described, write_whole
from streamsvm.service.predictions.writers import WRITERS, Writer
from streamsvm.storage.files.durable import publish, write_file
from streamsvm.storage.machine.resources import usable_cores
from streamsvm.storage.machine.thread_work import Unwanted, wanted_until
from streamsvm.storage.models.model_file import Model

_ASKED = "asked.json"
_LOCK = "lock"
_EVERY_SECONDS = 0.5
_MOMENT = struct.Struct("<d")  # by the monotonic clock, which all processes of the machine share


class SignsOfLife:
    """Writes heartbeats to a file; any thread may call `give`."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._next = 0.0
        self.give()

    def give(self, silence: float = 0.0) -> None:
        """Write a heartbeat; `silence` is how many seconds may now pass without another one."""
        now = time.monotonic()
        if now < self._next and not silence:
            return
        self._next = now + _EVERY_SECONDS
        with suppress(OSError):  # the next heartbeat may succeed
            os.pwrite(self._file, _MOMENT.pack(now + silence), 0)


class Wanted(Event):
    """An event that long loops check, see `wanted_until`, and that ends them once set. Each check calls `sign`."""

    def __init__(self, sign: Callable[[], None]) -> None:
        super().__init__()
        self._sign = sign

    def is_set(self) -> bool:
        """Call `sign`; return whether the work is to end."""
        self._sign()
        return super().is_set()


def silence_of(path: Path, since: float) -> float:
    """Return the seconds since the later of `since` and the last heartbeat in a file; below 0: announced silence."""
    last = since
    with suppress(OSError, struct.error):
        last = max(since, *_MOMENT.unpack(path.read_bytes()))
    return time.monotonic() - last


class Pieces:
    """The files of predicted units ("pieces") in a directory, which this process has locked until `close`.

    asked  description of the prediction, for JSON; pieces of a prediction with another description are removed
    Raises ServiceError already_running if another process has locked the directory.
    """

    def __init__(self, directory: Path, asked: Any) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = _held(directory / _LOCK)
        text = json.dumps(asked, sort_keys=True)
        if _read(directory / _ASKED) != text:
            for path in directory.iterdir():
                if path.name != _LOCK:
                    path.unlink()
            with needing_space():
                write_file(directory / _ASKED, [text.encode()])

    def done(self, number: int) -> dict[str, Any] | None:
        """Return the record of a unit's piece; None if the unit has no piece yet."""
        text = _read(self._record(number))
        return None if text is None else json.loads(text)

    def path(self, number: int) -> Path:
        """Return the path of the file that holds the predictions of unit `number`."""
        return self.directory / f"{number:08}.piece"

    @contextmanager
    def writing(self, number: int, record: dict[str, Any]) -> Iterator[IO[bytes]]:
        """Yield a file for a unit's piece. If the `with` statement succeeds, publish the piece and its `record`.

        Raises ServiceError out_of_space.
        """
        staged = self.path(number).with_suffix(".staged")
        with needing_space():
            with staged.open("wb") as file:
                yield file
            publish(staged, self.path(number))
            write_file(self._record(number), [json.dumps(record).encode()])

    def remove(self) -> None:
        """Remove the directory and all in it."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def close(self) -> None:
        """Unlock the directory for other processes."""
        os.close(self._lock)

    def _record(self, number: int) -> Path:
        return self.path(number).with_suffix(".json")


def _held(path: Path) -> int:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise ServiceError(
            "already_running", "another process predicts to this destination", "Wait for it, or end it."
        ) from None
    return lock


def _read(path: Path) -> str | None:
    with suppress(FileNotFoundError):
        return path.read_text()
    return None


_PASSING = ("source_unavailable", "destination_unwritable")
_UNFINISHED = "unfinished"
_LISTING_SECONDS = 300.0  # the time that a store may take to list a million files
LEAST_BYTES_PER_SECOND = 1 << 20  # the least rate at which a disk, or a store, is expected to take a whole file
Sign = Callable[[float], None]


class PredictionProgress(NamedTuple):
    """The progress of a prediction: rows and stored bytes of the input so far, and bytes of the whole input."""

    rows: int
    bytes: int
    total_bytes: int


class Stopped(Exception):
    """The prediction was asked to stop; its pieces stay."""


class Engine:
    """Carries out one request for a prediction.

    directory   directory of the pieces, see `Pieces`
    threads     number of threads that predict; by default the number of cores
    progress    is called with the progress after each unit
    unit_bytes  bytes of text, or of a dataset's decoded rows, in a unit
    name        ends the name of the destination's file until it is whole
    sign        heartbeat: is called again and again, with the seconds that may pass until the next call
    """

    def __init__(
        self,
        predictor: Predictor,
        request: PredictionRequest,
        directory: Path,
        threads: int | None = None,
        progress: Callable[[PredictionProgress], None] = lambda _: None,
        unit_bytes: int = UNIT_BYTES,
        name: str = _UNFINISHED,
        sign: Sign = lambda _: None,
    ) -> None:
        predictor = predictor.explaining(request.explain) if "contributions" in request.outputs else predictor
        self._predictor, self._request = predictor, request
        # It cuts its rows into units, of `size` stored bytes each, in order; `described` of a unit is JSON to compare.
        self._source: FileSource | DatasetSource = (
            FileSource(predictor, request.sources, request.options, request.keep, unit_bytes)
            if request.dataset is None
            else DatasetSource(predictor, request.dataset, request.keep, unit_bytes)
        )
        self._directory, self._threads = directory, threads or usable_cores()
        self._progress, self._name = progress, name
        self._sign, self._stopping = sign, Wanted(lambda: sign(0.0))

    def run(self, destination: str) -> PredictionFigures:
        """Predict all units that have no piece yet, write the destination, and remove the pieces.

        An error removes the pieces, too. They stay if this process is killed or interrupted, or a store does not
        answer: then `run` for the same request, files and model predicts only the other units; the file is the same.
        Raises InputError, ServiceError.
        """
        request = self._request
        check_destination(destination)
        self._sign(_LISTING_SECONDS)
        units: Sequence[Any] = self._source.units(lambda: self._sign(0.0))
        if not units:
            raise InputError("no_rows", "the input has no row")
        types = self._source.kept_types(units)
        self._columns = OutputColumns(self._predictor, request.keep, types, request.outputs)
        writer = WRITERS[request.format](self._columns)
        asked = [described(request), fingerprint(self._predictor.model), [unit.described() for unit in units]]
        pieces = Pieces(self._directory, asked)
        try:
            figures = self._predict(units, pieces, writer)
            if not figures.rows:
                raise InputError("no_rows", "the input has no row")
            paths = [pieces.path(number) for number in range(len(units))]
            write_whole(destination, lambda file: writer.join(self._told(paths), file), self._directory, self._name)
        except Exception as error:
            if not isinstance(error, Stopped) and getattr(error, "code", "") not in _PASSING:
                pieces.remove()
            raise
        finally:
            pieces.close()
        pieces.remove()
        return figures

    def stop(self) -> None:
        """Have `run` raise Stopped soon; any thread may call it."""
        self._stopping.set()

    def _predict(self, units: Sequence[Any], pieces: Pieces, writer: Writer) -> PredictionFigures:
        """Make the missing pieces. If units fail, raise the error of the first failed unit in the order of rows."""
        figures, taken, total = PredictionFigures(), 0, sum(unit.size for unit in units)
        numbers = iter(range(len(units)))
        with ThreadPoolExecutor(self._threads, "predict") as pool:
            submit = lambda number: pool.submit(self._piece, units[number], number, pieces, writer)  # noqa: E731
            under_way: deque[Future[PredictionFigures]] = deque(map(submit, islice(numbers, 2 * self._threads)))
            try:
                for unit in units:
                    figures.add_all(under_way.popleft().result().described())
                    under_way.extend(map(submit, islice(numbers, 1)))
                    taken += unit.size
                    self._progress(PredictionProgress(figures.rows, taken, total))
            except BaseException:
                self._stopping.set()
                for each in under_way:
                    each.cancel()
                raise
        return figures

    def _piece(self, unit: Any, number: int, pieces: Pieces, writer: Writer) -> PredictionFigures:
        """Make a unit's piece unless it exists; return the unit's figures."""
        figures, record = PredictionFigures(), pieces.done(number)
        if record is not None:
            figures.add_all(record)
            return figures
        record = {}
        try:
            with wanted_until(self._stopping), pieces.writing(number, record) as file:
                batches = self._batches(self._source.predictions(unit), figures)
                writer.write_piece(file, batches)
                record |= figures.described()
        except Unwanted:
            raise Stopped from None
        return figures

    def _told(self, paths: list[Path]) -> Iterator[Path]:
        """Yield the paths, calling `sign` before each, and after the last, when the file is synced and sent."""
        size = 0
        for path in paths:
            self._sign(0.0)
            size += path.stat().st_size
            yield path
        self._sign(size / LEAST_BYTES_PER_SECOND)

    def _batches(
        self, predictions: Iterator[tuple[Prediction, list[Column]]], figures: PredictionFigures
    ) -> Iterator[PredictedBatch]:
        for prediction, kept in predictions:
            if self._stopping.is_set():
                raise Stopped
            figures.add(prediction, self._predictor)
            yield self._columns.batch(prediction, kept)


def fingerprint(model: Model) -> str:
    """Return a hash of a model: two models with the same hash predict the same."""
    digest = blake2b(digest_size=16)
    vectors = model.vectors
    arrays = [model.w, np.asarray(model.intercept)]
    arrays += [] if vectors is None else [vectors.indptr, vectors.indices, vectors.values]
    fitted = () if model.maps is None else model.maps.maps
    arrays += [array for each in fitted for _, array in sorted(each.arrays.items())]
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    maps = [(each.name, each.map) for each in fitted]
    gamma = None if vectors is None else vectors.gamma
    told = model.labels, model.index_base, model.probability, gamma, maps, dict(model.about)
    digest.update(repr(told).encode())
    return digest.hexdigest()
