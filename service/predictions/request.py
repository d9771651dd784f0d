"""The request for a prediction of files: model, source, destination and columns. The destination exists whole or not at
all, be it a file of this machine or an object of a store.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath
from typing import IO, Any

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import InputOptions
from streamsvm.reader.sources.files import LOCAL, Location, RemoteStore, is_pattern, located, persistently, store_of
from streamsvm.service.errors import ServiceError, needing_space
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.files.durable import publish

OUTPUTS = ("label", "decision_value", "probability", "contributions")
USUAL_EXPLAINED = 10


# ending of a destination -> format of the predictions
ENDINGS = {".csv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".parquet": "parquet"}
FORMATS = ("csv", "ndjson", "parquet")
_WHERE = "Check the folder and who may write to it."
Fill = Callable[[IO[bytes]], None]


@dataclass(frozen=True)
class PredictionRequest:
    """The predictions of a model for the rows of files.

    sources  paths, URLs and patterns; the rows of files follow each other, those of a pattern by name
    dataset  directory of a dataset, whose rows are predicted instead
    options  how the files are read; format "auto": by name, else by content
    format   format of the predictions, one of FORMATS
    keep     names or numbers of columns of the input, to be copied before the predictions
    outputs  columns to predict, as `outputs_of` returns them; regression has `value` in place of label, decision_value
             and probability
    explain  the most contributions of a row, if these are among `outputs`
    """

    sources: Sequence[str]
    format: str
    options: InputOptions = field(default_factory=InputOptions)
    keep: tuple[str, ...] = ()
    outputs: tuple[str, ...] = OUTPUTS[:2]
    dataset: Path | None = None
    explain: int = USUAL_EXPLAINED


def format_of_destination(destination: str, format_: str | None = None) -> str:
    """Return the predictions' format: `format_`, else that of the file's ending. Raises ServiceError unknown_format."""
    found = format_ or ENDINGS.get(PurePath(destination).suffix.lower())
    if found not in FORMATS:
        hint = f"Let it end in {', '.join(ENDINGS)}, or set format."
        raise ServiceError("unknown_format", "the destination's name does not say the format", hint)
    return found


def outputs_of(predictor: Predictor, wanted: Sequence[str] | None) -> tuple[str, ...]:
    """Return the `wanted` outputs in the order of OUTPUTS; for None, all that the model has except contributions.

    Before contributions come base values. Raises ServiceError no_probabilities, no_contributions, unknown_output.
    """
    if wanted is not None and not set(wanted) <= set(OUTPUTS):
        raise ServiceError("unknown_output", "there is no such output", f"Outputs are {', '.join(OUTPUTS)}.")
    why: tuple[str, ...] = ()
    if wanted is not None and "contributions" in wanted:
        predictor.explaining(1)
        why = "base_value", "contributions"
    if predictor.model.is_regression:
        return "value", *why
    if wanted is None:
        return OUTPUTS[:3] if predictor.has_probabilities else OUTPUTS[:2]
    if "probability" in wanted and not predictor.has_probabilities:
        raise ServiceError(
            "no_probabilities",
            "the model has no probabilities",
            'Leave probability out of outputs, or train with "probability": "sigmoid".',
        )
    return (*(each for each in OUTPUTS[:3] if each in wanted), *why) or OUTPUTS[:1]


def described(request: PredictionRequest) -> dict[str, Any]:
    """Return format, options, columns and outputs as a dict for JSON, by which `Pieces` knows a repeated request."""
    options = {name: getattr(request.options, name) for name in sorted(request.options.given)}
    explain = {"explain": request.explain} if "contributions" in request.outputs else {}
    columns = {"keep": list(request.keep), "outputs": list(request.outputs), **explain}
    return {"format": request.format, "options": options, **columns}


def check_destination(destination: str) -> Location:
    """Parse a path or URL to write to. Raises InputError as `located` does, ServiceError destination_invalid, or
    destination_unwritable if there is no folder for a file of this machine.
    """
    location = located(destination)
    if is_pattern(location.path) and location.scheme != LOCAL:
        raise ServiceError("destination_invalid", "the destination is a pattern", "Name one file.")
    if location.scheme == LOCAL and not Path(location.path).resolve().parent.is_dir():
        message = f"there is no folder {Path(location.path).parent} for the destination"
        raise ServiceError("destination_unwritable", message, _WHERE)
    return location


def write_whole(destination: str, fill: Fill, scratch: Path, name: str) -> None:
    """Have `fill` write a file, and rename it to the destination, or send it there; an older file is replaced.

    scratch  directory for a file before it is sent to a store
    name     ends the name of the unfinished file; an unfinished file of an earlier attempt is replaced

    Raises ServiceError out_of_space, destination_unwritable.
    """
    location = check_destination(destination)
    if location.scheme == LOCAL:
        path = Path(location.path).resolve()
        with _unfinished(path.with_name(f".{path.name}.{name}")) as staged:
            _fill(staged, fill, lambda: publish(staged, path))
        return
    with _unfinished(scratch / f"whole.{name}") as staged:
        _fill(staged, fill)
        _send(location, staged, destination)


def remove_unfinished(destination: str, name: str) -> None:
    """Remove the unfinished file that a killed `write_whole` with this name may have left on this machine."""
    with suppress(OSError, InputError, ServiceError):
        location = check_destination(destination)
        if location.scheme == LOCAL:
            path = Path(location.path).resolve()
            path.with_name(f".{path.name}.{name}").unlink(missing_ok=True)


def _fill(staged: Path, fill: Fill, finish: Callable[[], None] = lambda: None) -> None:
    try:
        with needing_space():
            with staged.open("wb") as file:
                fill(file)
            finish()
    except OSError as error:
        message = f"the destination cannot be written: {error.strerror or type(error).__name__}"
        raise ServiceError("destination_unwritable", message, _WHERE) from error


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """Yield the path; when the `with` statement ends, remove the file there, unless it was renamed."""
    try:
        yield path
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _send(location: Location, staged: Path, destination: str) -> None:
    """Send a file to a store, which shows only whole files. Raises ServiceError destination_unwritable."""
    store = store_of(location)
    assert isinstance(store, RemoteStore)
    try:
        persistently(partial(store.write, location.path, staged), destination)
    except InputError as error:
        message = error.message.replace("read", "written")
        raise ServiceError("destination_unwritable", message, "Check the bucket, and who may write to it.") from None
