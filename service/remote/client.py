"""A service as objects: its datasets, jobs and models. The command line and `streamsvm.Client` are made with it."""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any
from urllib.parse import quote, urlencode

from streamsvm.reader.options import InputOptions
from streamsvm.service.remote.connection import DEFAULT_URL, TOKEN_VARIABLE, URL_VARIABLE, Connection
from streamsvm.service.remote.objects import RemoteDataset, RemoteJob, RemoteModel

__all__ = ["DEFAULT_URL", "TOKEN_VARIABLE", "URL_VARIABLE", "Client"]


class Client(Connection):
    """The service at an address; what it refuses, or that it does not answer, is raised as ServiceError."""

    def datasets(self) -> list[RemoteDataset]:
        """All, the newest first."""
        return [RemoteDataset(self, each["name"], each) for each in self.json("GET", "/v1/datasets")["datasets"]]

    def dataset(self, name: str) -> RemoteDataset:
        """The one of this name."""
        return RemoteDataset(self, name).refresh()

    def add_dataset(self, name: str, source: Path | str | IO[bytes], **options: Any) -> RemoteDataset:
        """Upload a file, or what a binary stream holds, and have it read in; options: of `reader.options`.

        Raises InputError for what is wrong in it.
        """
        with Path(source).open("rb") if isinstance(source, str | Path) else nullcontext(source) as file:
            return RemoteDataset(self, name, self.upload(_reading_in(name, options), file))

    def import_dataset(self, name: str, file: str, machines: int | str | None = None, **options: Any) -> RemoteDataset:
        """Have the service read one of its own files, or what a URL names, in the background.

        machines: of its Ray cluster, or "all", that read a part of what a URL names each, and keep it.
        """
        more = {"import": file} if machines is None else {"import": file, "machines": str(machines)}
        return RemoteDataset(self, name, self.json("PUT", _reading_in(name, options, more)))

    def jobs(self, state: str | None = None) -> Iterator[RemoteJob]:
        """All, or those in a state, the newest first."""
        path = "/v1/jobs?page_size=200" + (f"&state={state}" if state else "")
        page = self.json("GET", path)
        while True:
            yield from (RemoteJob(self, each["id"], each) for each in page["jobs"])
            if not page["next_page_token"]:
                return
            page = self.json("GET", f"{path}&page_token={page['next_page_token']}")

    def job(self, id: str) -> RemoteJob:
        """The one of this id."""
        return RemoteJob(self, id).refresh()

    def submit(self, dataset: str, **fields: Any) -> RemoteJob:
        """A new job on a dataset; fields: those of a job, such as C, solver and tolerance."""
        made = self.json("POST", "/v1/jobs", {**fields, "dataset": dataset})
        return RemoteJob(self, made["id"], made)

    def models(self) -> list[RemoteModel]:
        """All, the newest first."""
        return [RemoteModel(self, each["id"], each) for each in self.json("GET", "/v1/models")["models"]]

    def model(self, id: str) -> RemoteModel:
        """The one of this id."""
        return RemoteModel(self, id).refresh()


def _reading_in(name: str, options: Mapping[str, Any], more: Mapping[str, str] = MappingProxyType({})) -> str:
    """The route that reads a dataset in."""
    given = InputOptions(**options)
    query = {option: getattr(given, option) for option in sorted(given.given)}
    return f"/v1/datasets/{quote(name, safe='')}?{urlencode({**query, **more})}"
