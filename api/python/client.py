"""The client of a service whose hints name arguments, as calls from Python have them."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from streamsvm.errors import as_arguments
from streamsvm.frames import is_frame
from streamsvm.service.remote.client import Client as ServiceClient
from streamsvm.service.remote.connection import Refusal
from streamsvm.service.remote.objects import RemoteDataset


class Client(ServiceClient):
    """The service at an address. Raises ServiceError if the service refuses a request, or does not answer.

    Parameters
    ----------
    url : str, default="http://localhost:8000"
        Its address.
    token : str, default=None
        None: the one in the environment variable STREAMSVM_TOKEN, if it is set.
    retries : int, default=3
        How often to repeat a request that changes nothing and that no service answers, and rows that the service is
        too busy for.
    """

    where = "Start one with streamsvm serve, or give the address of one: Client(url)."

    def add_dataset(self, name: str, source: Path | str | IO[bytes] | Any, **options: Any) -> RemoteDataset:
        """Upload rows as a new dataset; returns when they have been read in.

        source   a file, the bytes of a stream, or a frame: of pandas, polars (LazyFrame, too) or pyarrow, or any object
                 that gives streams of Arrow. A frame is sent batch by batch
        options  how to read it: the fields of InputOptions
        Raises InputError for a fault in the data.
        """
        if not is_frame(source):
            return super().add_dataset(name, source, **options)
        return super().add_dataset(name, _Chunks(_stream(source)), **{"format": "arrow", **options})  # type: ignore[arg-type]

    def told(self, error: Refusal) -> Refusal:
        """The error with its hint for Python, which tracebacks show."""
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
    """The part of a file's interface that an upload reads by; what was read is gone."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks

    def seekable(self) -> bool:
        return False

    def read(self, _size: int) -> bytes:
        return next(self._chunks, b"")
