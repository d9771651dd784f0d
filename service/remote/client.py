"""A client of a service, for the command line and as `streamsvm.Client`: datasets, jobs and models as objects."""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any
from urllib.parse import quote, urlencode

from streamsvm.reader.options import options_from
from streamsvm.service.remote.connection import DEFAULT_URL, TOKEN_VARIABLE, URL_VARIABLE, Connection
from streamsvm.service.remote.frames import is_frame
from streamsvm.service.remote.objects import RegisteredModel, RemoteDataset, RemoteJob, RemoteModel, RemotePrediction

__all__ = ["DEFAULT_URL", "TOKEN_VARIABLE", "URL_VARIABLE", "Client"]


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
