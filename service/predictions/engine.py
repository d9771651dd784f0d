"""Predicts the files of a request into one file: threads predict units, whose pieces are then joined in order."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.beside import Column
from streamsvm.service.models.predicting.contributions import explaining
from streamsvm.service.models.predicting.predictor import Prediction, Predictor
from streamsvm.service.predictions.columns import Batch, Columns
from streamsvm.service.predictions.destinations import check_destination, write_whole
from streamsvm.service.predictions.figures import Figures
from streamsvm.service.predictions.pieces import Pieces
from streamsvm.service.predictions.request import Request, described
from streamsvm.service.predictions.signs import Wanted
from streamsvm.service.predictions.sources import Cut, source_of
from streamsvm.service.predictions.units import UNIT_BYTES
from streamsvm.service.predictions.writers import WRITERS, Writer
from streamsvm.storage.machine.abandoned_work import Unwanted, wanted_until
from streamsvm.storage.machine.resources import usable_cores
from streamsvm.storage.models.model_file import Model

_PASSING = ("source_unavailable", "destination_unwritable")
_UNFINISHED = "unfinished"
_LISTING_SECONDS = 300.0  # that a store may take to list a million files
LEAST_BYTES_PER_SECOND = 1 << 20  # of a disk, or a store, that takes a whole file
Sign = Callable[[float], None]


class Progress(NamedTuple):
    """How far a prediction is; bytes are those of the input as it is stored, `total_bytes` all of them."""

    rows: int
    bytes: int
    total_bytes: int


class Stopped(Exception):
    """The prediction was asked to stop; its pieces stay."""


class Engine:
    """Predicts one request.

    directory   of the pieces, see `Pieces`
    threads     that predict; by default the number of cores
    progress    is told how far the prediction is, after each unit
    unit_bytes  of text in a unit, or of a dataset's decoded rows
    name        ends the name of the destination until it is whole
    sign        is told all the time that the work goes on, and how many seconds it may take until it is told again
    """

    def __init__(
        self,
        predictor: Predictor,
        request: Request,
        directory: Path,
        threads: int | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
        unit_bytes: int = UNIT_BYTES,
        name: str = _UNFINISHED,
        sign: Sign = lambda _: None,
    ) -> None:
        predictor = explaining(predictor) if "contributions" in request.outputs else predictor
        self._predictor, self._request = predictor, request
        self._source = source_of(predictor, request, unit_bytes)
        self._directory, self._threads = directory, threads or usable_cores()
        self._progress, self._name = progress, name
        self._sign, self._stopping = sign, Wanted(lambda: sign(0.0))

    def run(self, destination: str) -> Figures:
        """Predict all units that have no piece yet, write the destination, and remove the pieces.

        After an error, too, the pieces are removed. They stay if this process is killed or interrupted, or a store does
        not answer: `run` for the same request, files and model then predicts the remaining units, and writes the same
        bytes.
        Raises InputError, ServiceError.
        """
        request = self._request
        check_destination(destination)
        self._sign(_LISTING_SECONDS)
        units = self._source.units(lambda: self._sign(0.0))
        if not units:
            raise InputError("no_rows", "the input has no row")
        types = self._source.kept_types(units)
        self._columns = Columns(self._predictor, request.keep, types, request.outputs)
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

    def _predict(self, units: Sequence[Cut], pieces: Pieces, writer: Writer) -> Figures:
        """Make the pieces that are missing. If units fail, raises the error of the first in the order of rows."""
        figures, taken, total = Figures(), 0, sum(unit.size for unit in units)
        numbers = iter(range(len(units)))
        with ThreadPoolExecutor(self._threads, "predict") as pool:
            submit = lambda number: pool.submit(self._piece, units[number], number, pieces, writer)  # noqa: E731
            under_way: deque[Future[Figures]] = deque(map(submit, islice(numbers, 2 * self._threads)))
            try:
                for unit in units:
                    figures.add_all(under_way.popleft().result().described())
                    under_way.extend(map(submit, islice(numbers, 1)))
                    taken += unit.size
                    self._progress(Progress(figures.rows, taken, total))
            except BaseException:
                self._stopping.set()
                for each in under_way:
                    each.cancel()
                raise
        return figures

    def _piece(self, unit: Cut, number: int, pieces: Pieces, writer: Writer) -> Figures:
        """Make a unit's piece unless it is there."""
        figures, record = Figures(), pieces.done(number)
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
        """Yield the pieces to join, with a sign before each; the file is made durable, and sent, after the last one."""
        size = 0
        for path in paths:
            self._sign(0.0)
            size += path.stat().st_size
            yield path
        self._sign(size / LEAST_BYTES_PER_SECOND)

    def _batches(self, predictions: Iterator[tuple[Prediction, list[Column]]], figures: Figures) -> Iterator[Batch]:
        for prediction, kept in predictions:
            if self._stopping.is_set():
                raise Stopped
            figures.add(prediction, self._predictor)
            yield self._columns.batch(prediction, kept)


def fingerprint(model: Model) -> str:
    """A text that differs for models that may predict differently."""
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
