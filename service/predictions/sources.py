"""The rows that a prediction reads: files, or a dataset, cut into units that threads predict."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from streamsvm.reader.parsers.beside import Column
from streamsvm.reader.sources.files import list_files
from streamsvm.service.models.predicting.predictor import Prediction, Predictor
from streamsvm.service.predictions.dataset_rows import DatasetSource
from streamsvm.service.predictions.reading import predictions_of
from streamsvm.service.predictions.request import Request
from streamsvm.service.predictions.units import Unit, kept_types, units_of


class Cut(Protocol):
    """A unit of rows; `size` is in bytes as they are stored."""

    @property
    def size(self) -> int: ...

    def described(self) -> list[Any]:
        """The unit as JSON, to see whether it is still the same."""


class Source(Protocol):
    """Rows to predict."""

    def units(self, told: Callable[[], None]) -> Sequence[Any]:
        """Cut the rows into a `Cut` each, in their order; calls `told` now and then. Raises InputError."""

    def kept_types(self, units: Sequence[Any]) -> list[Any] | None:
        """Arrow's types of the columns to keep; None: they are texts."""

    def predictions(self, unit: Any) -> Iterator[tuple[Prediction, list[Column]]]:
        """Yield the predictions of a unit's rows in order, with the columns to keep. Raises InputError."""


class FileSource:
    """The files of a request. A `Source`."""

    def __init__(self, predictor: Predictor, request: Request, unit_bytes: int) -> None:
        self._predictor, self._request, self._unit_bytes = predictor, request, unit_bytes

    def units(self, told: Callable[[], None]) -> Sequence[Unit]:
        """See `Source`."""
        request, files = self._request, list_files(self._request.sources)
        return units_of(self._predictor, files, request.options, request.keep, self._unit_bytes, told)

    def kept_types(self, units: Sequence[Unit]) -> list[Any] | None:
        """See `Source`."""
        return kept_types(units, self._request.keep)

    def predictions(self, unit: Unit) -> Iterator[tuple[Prediction, list[Column]]]:
        """See `Source`."""
        return predictions_of(self._predictor, unit, self._request.keep)


def source_of(predictor: Predictor, request: Request, unit_bytes: int) -> Source:
    """The rows of a request."""
    if request.dataset is not None:
        return DatasetSource(predictor, request.dataset, request.keep, unit_bytes)
    return FileSource(predictor, request, unit_bytes)
