"""Datasets, jobs and models of a service, as small objects. `view` is what the service said of them last."""

import time
from collections.abc import Iterator
from os import PathLike
from typing import Any, NamedTuple, Self
from urllib.parse import quote

from streamsvm.service.errors import ServiceError
from streamsvm.service.models.names import TEXTS, check_ending, format_of
from streamsvm.service.remote.connection import Connection, suppress_unanswered
from streamsvm.storage.files.durable import whole_file

_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 0.5


class Remote:
    """Something that a service has, by the name or id it has there.

    view  as the service's interface documents it
    """

    _FOLDER = ""

    def __init__(self, connection: Connection, id: str, view: dict[str, Any] | None = None) -> None:
        self._connection = connection
        self.id = id
        self.view = view or {}

    @property
    def path(self) -> str:
        """Where it is."""
        return f"/v1/{self._FOLDER}/{quote(self.id, safe='')}"

    def refresh(self) -> Self:
        """Ask what it is now."""
        self.view = self._connection.json("GET", self.path)
        return self

    def delete(self) -> None:
        """Remove it."""
        self._connection.json("DELETE", self.path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"


class RemoteDataset(Remote):
    """Rows that jobs train on; `id` is its name."""

    _FOLDER = "datasets"

    def wait(self, poll_seconds: float = _PAUSE_SECONDS) -> Self:
        """Until it is no longer being read in. Raises ServiceError for what went wrong."""
        while self.refresh().view["state"] == "ingesting":
            time.sleep(poll_seconds)
        if failure := self.view.get("failure"):
            raise ServiceError.of(failure)
        return self


class RemoteModel(Remote):
    """A trained model."""

    _FOLDER = "models"

    def download(self, path: str | PathLike[str], format: str | None = None) -> None:
        """Into a file, in the format that the ending of its name says; `streamsvm.load` reads it.

        format: in place of what the name says. Raises ServiceError not_exportable, unknown_format.
        """
        if format is None:
            check_ending(path)
        format_ = format or format_of(path)
        # Which program's text it is decides the model: the service knows.
        query = "" if format_ in TEXTS else f"?format={format_}"
        with whole_file(path) as target:
            self._connection.download(f"{self.path}/file{query}", target)


class Progress(NamedTuple):
    """What happened: `kind` is state, progress, pass, or end; `data` says what, as the interface documents it."""

    kind: str
    data: dict[str, Any]


class RemoteJob(Remote):
    """Training, queued, running or ended."""

    _FOLDER = "jobs"

    @property
    def state(self) -> str:
        """When it was asked last."""
        return self.view["state"]

    @property
    def models(self) -> list[RemoteModel]:
        """Of a job that has ended, one for each C."""
        found = (self.view["result"] or {}).get("models", ())
        return [RemoteModel(self._connection, each["model_id"]) for each in found]

    def watch(self) -> Iterator[Progress]:
        """What happens until it ends, also over a restart of the service; then `view` is what came out."""
        after, heard = "", time.monotonic()
        while True:
            with suppress_unanswered():
                for kind, number, data in self._connection.events(f"{self.path}/events", after):
                    after, heard = number or after, time.monotonic()
                    if kind == "end":
                        self.view = data
                    yield Progress(kind, data)
                    if kind == "end":
                        return
            if time.monotonic() - heard > _PATIENCE_SECONDS:
                self.refresh()
            time.sleep(_PAUSE_SECONDS)

    def wait(self) -> Self:
        """Until it has ended. Raises ServiceError if it failed."""
        for _ in self.watch():
            pass
        if failure := self.view["failure"]:
            at = {"log_tail": failure.get("log_tail", "")}
            raise ServiceError(failure["code"], failure["message"], failure["hint"], at)
        return self

    def history(self) -> list[dict[str, Any]]:
        """A line a pass."""
        return self._connection.json("GET", f"{self.path}/history")["passes"]

    def stop(self) -> Self:
        """End it after its running pass; the model so far stays."""
        return self._act("stop")

    def cancel(self) -> Self:
        """End it at once, without a model."""
        return self._act("cancel")

    def resume(self, **changes: Any) -> "RemoteJob":
        """A new job that goes on where this one ended; changes: max_passes, max_seconds, tolerance, relative_gap."""
        made = self._connection.json("POST", f"{self.path}/resume", changes)
        return RemoteJob(self._connection, made["id"], made)

    def _act(self, what: str) -> Self:
        self.view = self._connection.json("POST", f"{self.path}/{what}")
        return self
