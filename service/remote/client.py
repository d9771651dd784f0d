"""A client of a service, for the command line and as `streamsvm.Client`: datasets, jobs and models as objects.

The `view` of an object is the service's latest description of it, as a dict.
"""

import json
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple, Self
from urllib.parse import quote, urlencode

from streamsvm.reader.options import options_from
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.formats import TEXTS, check_ending, format_of
from streamsvm.service.remote.connection import (
    DEFAULT_URL,
    TOKEN_VARIABLE,
    URL_VARIABLE,
    Connection,
    suppress_unanswered,
)
from streamsvm.service.remote.frames import is_frame
from streamsvm.storage.files.durable import whole_file

__all__ = ["DEFAULT_URL", "TOKEN_VARIABLE", "URL_VARIABLE", "Client"]

_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 0.5


class Remote:
    """A dataset, job or model of a service, by its name or id.

    view  the service's latest description as a dict, documented in api/README.md; {} if it was not requested yet
    """

    _FOLDER = ""

    def __init__(self, connection: Connection, id: str, view: dict[str, Any] | None = None) -> None:
        self._connection = connection
        self.id = id
        self.view = view or {}

    @property
    def path(self) -> str:
        """The path of the service's route for this dataset, job or model."""
        return f"/v1/{self._FOLDER}/{quote(self.id, safe='')}"

    def refresh(self) -> Self:
        """Request the current `view` from the service."""
        self.view = self._connection.json("GET", self.path)
        return self

    def delete(self) -> None:
        """Delete this dataset, job or model in the service."""
        self._connection.json("DELETE", self.path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"


class RemoteDataset(Remote):
    """Rows that jobs train on; `id` is the dataset's name."""

    _FOLDER = "datasets"

    def wait(self, poll_seconds: float = _PAUSE_SECONDS) -> Self:
        """Wait until the service has read the dataset in. Raises ServiceError if reading failed."""
        while self.refresh().view["state"] == "ingesting":
            time.sleep(poll_seconds)
        if failure := self.view.get("failure"):
            raise ServiceError.of(failure)
        return self


class RemoteModel(Remote):
    """A trained model; `id` may also be a name, `NAME:VERSION` or `NAME@ALIAS`."""

    _FOLDER = "models"

    def register(self, name: str) -> int:
        """Make the model the next version of the registered model `name`; return the version."""
        return self._connection.json("POST", f"{self.path}/register", {"name": name})["version"]

    def cut(self, threshold: float) -> "RemoteModel":
        """Make a model that predicts the first of two classes for decision values above the threshold; return it."""
        made = self._connection.json("POST", f"{self.path}/threshold", {"threshold": threshold})
        return RemoteModel(self._connection, made["id"])

    def download(self, path: str | PathLike[str], format: str | None = None) -> None:
        """Write the model to a file, in the format that the ending of its name says; `streamsvm.load` reads the file.

        format  takes the place of the ending; text formats are LIBLINEAR's or, for a kernel machine, LIBSVM's
        Raises ServiceError not_exportable, unknown_format.
        """
        if format is None:
            check_ending(path)
        format_ = format or format_of(path)
        if format_ in TEXTS:
            format_ = TEXTS[(self.view or self.refresh().view)["kernel"] == "rbf"]
        with whole_file(path) as target:
            self._connection.download(f"{self.path}/file?format={format_}", target)

    def predict(self, X: Any, **options: Any) -> Any:
        """Return the label of each row, or in regression the number, as an array of numpy (n_rows,).

        X        path of a file in a format that the service predicts, or an open file; a data frame of pandas, polars
                 or pyarrow; an array or a matrix of scipy.sparse (n_rows, n_features), whose columns are those of
                 training in their order; a list of objects {column: value}, of documents, or of strings
        options  label_column, text_column, index_base, header, delimiter, decimal, encoding, strict
        Raises InputError for a fault in the rows, ServiceError. Warns of columns that the model does not have.
        """
        # Imported here because numpy takes longer than all else that most commands do.
        from streamsvm.service.remote.rows import body_of, predicted  # noqa: PLC0415

        body = body_of(X, (self.view or self.refresh().view)["input"])
        texts = {name: json.dumps(each) if isinstance(each, bool) else each for name, each in options.items()}
        query = urlencode({**body.query, **texts})
        answer = self._connection.post(f"{self.path}/predict?{query}", body.chunks, body.kind, repeats=not body.is_once)
        if unknown := answer.get("unknown_columns"):
            message = f"columns that the model does not have, left out: {', '.join(unknown['names'])}"
            warnings.warn(message, stacklevel=2)
        return predicted(answer)


class RegisteredModel(Remote):
    """A name with its models: versions, and aliases that each point at a version; `id` is the name."""

    _FOLDER = "registered-models"

    def version(self, reference: int | str) -> RemoteModel:
        """Return the model of a version (a number) or of an alias (a text)."""
        sign = ":" if isinstance(reference, int) else "@"
        return RemoteModel(self._connection, f"{self.id}{sign}{reference}").refresh()

    def move(self, alias: str, version: int) -> Self:
        """Point an alias at a version: predictions that begin later by this alias are made by this version."""
        self._connection.json("PUT", f"{self.path}/aliases/{quote(alias, safe='')}", {"version": version})
        return self.refresh()

    def remove(self, alias: str) -> Self:
        """Delete an alias."""
        self._connection.json("DELETE", f"{self.path}/aliases/{quote(alias, safe='')}")
        return self.refresh()


class Progress(NamedTuple):
    """An event of a job: `kind` is state, progress, pass or end; api/README.md documents `data`."""

    kind: str
    data: dict[str, Any]


class RemotePrediction(Remote):
    """A prediction of files, which is queued, running or ended."""

    _FOLDER = "predictions"

    def wait(self, seconds: float = _PATIENCE_SECONDS) -> Self:
        """Wait for the prediction's end, even if the service restarts. Raises ServiceError: it failed or was cancelled.

        seconds  longest time that one request waits for the end, at most 25
        """
        while self.view.get("state") in (None, "queued", "running"):
            with suppress_unanswered():
                self.view = self._connection.json("GET", f"{self.path}?wait_seconds={min(seconds, 25):g}")
                continue
            time.sleep(_PAUSE_SECONDS)
        if self.view["failure"]:
            raise failure_of(self.view)
        if self.view["state"] == "cancelled":
            raise ServiceError("cancelled", "the prediction was cancelled")
        return self

    def cancel(self) -> Self:
        """Ask the service to end the prediction; no file stays at its destination."""
        self.view = self._connection.json("POST", f"{self.path}/cancel")
        return self


class RemoteJob(Remote):
    """A training job, which is queued, running or ended."""

    _FOLDER = "jobs"

    @property
    def state(self) -> str:
        """The state of the job in the latest `view`."""
        return self.view["state"]

    @property
    def models(self) -> list[RemoteModel]:
        """The models of an ended job, one for each C."""
        models = (self.view["result"] or {}).get("models", ())
        return [RemoteModel(self._connection, each["model_id"]) for each in models]

    def watch(self) -> Iterator[Progress]:
        """Yield the events of the job until its end, even if the service restarts; then `view` is final."""
        after, last_event = "", time.monotonic()
        while True:
            with suppress_unanswered():
                for kind, number, data in self._connection.events(f"{self.path}/events", after):
                    after, last_event = number or after, time.monotonic()
                    if kind == "end":
                        self.view = data
                    yield Progress(kind, data)
                    if kind == "end":
                        return
            if time.monotonic() - last_event > _PATIENCE_SECONDS:
                self.refresh()
            time.sleep(_PAUSE_SECONDS)

    def wait(self) -> Self:
        """Wait until the job has ended. Raises ServiceError if it failed."""
        for _ in self.watch():
            pass
        if self.view["failure"]:
            raise failure_of(self.view)
        return self

    def history(self) -> list[dict[str, Any]]:
        """Return the figures of each pass, as GET /v1/jobs/{id}/history answers."""
        return self._connection.json("GET", f"{self.path}/history")["passes"]

    def stop(self) -> Self:
        """Ask the service to end the job soon, with a model of the state that training has reached by then."""
        return self._act("stop")

    def cancel(self) -> Self:
        """Ask the service to end the job at once, without a model."""
        return self._act("cancel")

    def resume(self, **changes: Any) -> "RemoteJob":
        """Submit a job that continues this job; changes: max_passes, max_seconds, tolerance, relative_gap."""
        job = self._connection.json("POST", f"{self.path}/resume", changes)
        return RemoteJob(self._connection, job["id"], job)

    def _act(self, what: str) -> Self:
        self.view = self._connection.json("POST", f"{self.path}/{what}")
        return self


def failure_of(view: dict[str, Any]) -> ServiceError:
    """Make the error that a failed job or prediction ended with, from its view."""
    failure = view["failure"]
    return ServiceError(failure["code"], failure["message"], failure["hint"], {"log_tail": failure.get("log_tail", "")})


class Client(Connection):
    """The service at an address. Raises ServiceError if the service refuses a request, or does not answer."""

    def datasets(self) -> list[RemoteDataset]:
        """Return all datasets, by name."""
        return [RemoteDataset(self, each["name"], each) for each in self.json("GET", "/v1/datasets")["datasets"]]

    def dataset(self, name: str) -> RemoteDataset:
        """Return the dataset of this name."""
        return RemoteDataset(self, name).refresh()

    def add_dataset(self, name: str, source: Path | str | IO[bytes] | Any, **options: Any) -> RemoteDataset:
        """Upload rows as a new dataset; return when the service has read them in.

        source   a file, the bytes of a stream, or a frame: of pandas, polars (LazyFrame, too) or pyarrow, or any object
                 that gives streams of Arrow. A frame is sent batch by batch
        options  how to read the source: the fields of InputOptions
        Raises InputError for a fault in the data.
        """
        if not isinstance(source, str | Path) and is_frame(source):
            from streamsvm.service.remote.rows import stream_of  # noqa: PLC0415 - pyarrow is slow to import

            path = _reading_in(name, {"format": "arrow", **options})
            return RemoteDataset(self, name, self.put(path, stream_of(source)))
        with Path(source).open("rb") if isinstance(source, str | Path) else nullcontext(source) as file:
            return RemoteDataset(self, name, self.upload(_reading_in(name, options), file))

    def import_dataset(self, name: str, file: str, machines: int | str | None = None, **options: Any) -> RemoteDataset:
        """Have the service import a file of its import directory, or the files of a URL, in the background.

        machines  how many machines of the service's Ray cluster, or "all", each read and keep a part of the URL's files
        options   how to read the files: the fields of InputOptions
        """
        more = {"import": file} if machines is None else {"import": file, "machines": str(machines)}
        return RemoteDataset(self, name, self.json("PUT", _reading_in(name, options, more)))

    def jobs(self, state: str | None = None) -> Iterator[RemoteJob]:
        """Yield all jobs, or the jobs in this state, the newest first."""
        return (RemoteJob(self, each["id"], each) for each in self._pages("/v1/jobs", "jobs", state))

    def job(self, id: str) -> RemoteJob:
        """Return the job of this id."""
        return RemoteJob(self, id).refresh()

    def submit(self, dataset: str, **fields: Any) -> RemoteJob:
        """Submit a job on a dataset, with fields such as C, solver and tolerance; return the queued job."""
        job = self.json("POST", "/v1/jobs", {**fields, "dataset": dataset})
        return RemoteJob(self, job["id"], job)

    def predictions(self, state: str | None = None) -> Iterator[RemotePrediction]:
        """Yield all predictions of files, or those in this state, the newest first."""
        pages = self._pages("/v1/predictions", "predictions", state)
        return (RemotePrediction(self, each["id"], each) for each in pages)

    def prediction(self, id: str) -> RemotePrediction:
        """Return the prediction of files with this id."""
        return RemotePrediction(self, id).refresh()

    def predict_dataset(self, model: str, dataset: str, destination: str, **fields: Any) -> RemotePrediction:
        """Have the service predict the rows of a dataset into a file; other arguments are those of `predict_files`."""
        return self._predict({**fields, "model": model, "dataset": dataset, "destination": destination})

    def predict_files(self, model: str, source: str, destination: str, **fields: Any) -> RemotePrediction:
        """Have the service read rows from files and write predictions to a file, in the background.

        model   id, name, `NAME:VERSION` or `NAME@ALIAS`
        source  file or pattern below its import directory, or a URL; destination: below its export directory, or a URL
        fields  format, keep, outputs, overwrite, options
        """
        return self._predict({**fields, "model": model, "import": source, "destination": destination})

    def _predict(self, asked: dict[str, Any]) -> RemotePrediction:
        prediction = self.json("POST", "/v1/predictions", asked)
        return RemotePrediction(self, prediction["id"], prediction)

    def models(self) -> list[RemoteModel]:
        """Return all models, the newest first."""
        return [RemoteModel(self, each["id"], each) for each in self.json("GET", "/v1/models")["models"]]

    def model(self, id: str) -> RemoteModel:
        """Return the model of this id, name, `NAME:VERSION` or `NAME@ALIAS`."""
        return RemoteModel(self, id).refresh()

    def registered_models(self) -> list[RegisteredModel]:
        """Return all registered models, by name."""
        shown = self.json("GET", "/v1/registered-models")["registered_models"]
        return [RegisteredModel(self, each["name"], each) for each in shown]

    def registered_model(self, name: str) -> RegisteredModel:
        """Return the registered model of this name."""
        return RegisteredModel(self, name).refresh()

    def _pages(self, route: str, name: str, state: str | None) -> Iterator[dict[str, Any]]:
        """Yield the entries of a list of the service, page by page."""
        path = f"{route}?page_size=200" + (f"&state={state}" if state else "")
        page = self.json("GET", path)
        while True:
            yield from page[name]
            if not page["next_page_token"]:
                return
            page = self.json("GET", f"{path}&page_token={page['next_page_token']}")


def _reading_in(name: str, options: Mapping[str, Any], more: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return path and query of a request that reads a dataset in."""
    input_options = options_from(options)
    query = {option: getattr(input_options, option) for option in sorted(input_options.given)}
    return f"/v1/datasets/{quote(name, safe='')}?{urlencode({**query, **more})}"
