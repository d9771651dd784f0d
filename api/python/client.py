"""The client of a service for Python: hints of its errors name arguments of calls, not fields of JSON."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from streamsvm.errors import as_arguments
from streamsvm.frames import is_frame
from streamsvm.service.remote.client import Client as ServiceClient
from streamsvm.service.remote.connection import Refusal
from streamsvm.service.remote.objects import RemoteDataset


class Client(ServiceClient):
    """A service at an address. Calls raise ServiceError if the service refuses a request, or does not answer.

    Parameters
    ----------
    url : str, default="http://localhost:8000"
        Address of the service.
    token : str, default=None
        Token to send; None: the value of the environment variable STREAMSVM_TOKEN, if it is set.
    retries : int, default=3
        How often to repeat a request that changes nothing and gets no answer, or a request that sends rows while the
        service is too busy.
    """

    where = "Start one with streamsvm serve, or give the address of one: Client(url)."

    def add_dataset(self, name: str, source: Path | str | IO[bytes] | Any, **options: Any) -> RemoteDataset:
        """Upload rows as a new dataset; return when the service has read them in.

        source   a file, the bytes of a stream, or a frame: of pandas, polars (LazyFrame, too) or pyarrow, or any object
                 that gives streams of Arrow. A frame is sent batch by batch
        options  how to read the source: the fields of InputOptions
        Raises InputError for a fault in the data.
        """
        if not is_frame(source):
            return super().add_dataset(name, source, **options)
        return super().add_dataset(name, _Chunks(_stream(source)), **{"format": "arrow", **options})  # type: ignore[arg-type]

    def told(self, error: Refusal) -> Refusal:
        """Return the error, with its hint rewritten for Python and added as a note, which tracebacks show."""
        error.hint = as_arguments(error.hint)
        if error.hint:
            error.add_note(f"{error.hint} [{error.code}]")
        return error


def _stream(frame: Any) -> Iterator[bytes]:
    # pyarrow is slow to import.
    from streamsvm.reader.parsers.tables.arrow import written  # noqa: PLC0415
    from streamsvm.tables import opened  # noqa: PLC0415

    return written(opened(frame).batches)


class _Chunks:
    """A file that can only be read once, from front to back, as an upload does."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks

    def seekable(self) -> bool:
        return False

    def read(self, _size: int) -> bytes:
        return next(self._chunks, b"")
