"""Imports files of the import directory or of object stores, one after the other in the background.

The store holds the imports to do: after a restart of the process, an unfinished import begins again.
"""

import errno
import logging
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Any

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import InputOptions
from streamsvm.reader.sources.files import check_installed, is_below, is_url, located
from streamsvm.service.datasets.forgetting import forget
from streamsvm.service.datasets.ingesting import Ingesting, ingest_failed
from streamsvm.service.errors import ServiceError
from streamsvm.service.processes.background import Background
from streamsvm.service.records.store import Store
from streamsvm.service.records.unrecorded import mark, unmark
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.dataset import staged_path
from streamsvm.storage.errors import NO_ROOM, ROOM_HINT

_POLL_SECONDS = 0.05
_log = logging.getLogger("streamsvm.importer")
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_import(directory: Path | None, name: str) -> IO[bytes]:
    """Open the regular file `name` below the import directory, without following a link.

    Raises ServiceError: import_disabled, import_invalid, unknown_file.
    """
    if directory is None:
        raise ServiceError("import_disabled", "the service has no import directory", "Set STREAMSVM_IMPORT_DIR.")
    *folders, last = name.split("/")
    if {"", ".", ".."} & {*folders, last} or "\0" in name or not name.isprintable():
        raise _invalid()
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            place, before = os.open(folder, _FLAGS | os.O_DIRECTORY, dir_fd=place), place
            os.close(before)
        # Without O_NONBLOCK, opening a named pipe would wait for its other end.
        file = os.fdopen(os.open(last, _FLAGS | os.O_NONBLOCK, dir_fd=place), "rb")
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _invalid() from None
        raise ServiceError("unknown_file", "there is no such file that can be read") from None
    finally:
        os.close(place)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise _invalid()
    return file


def check_source(prefixes: Sequence[str], url: str) -> None:
    """Check that a URL, or all that a pattern matches, lies below one of these prefixes; do not contact the store.

    Raises ServiceError import_forbidden, not_installed, and for a URL that `reader.sources.files` refuses.
    """
    try:
        location = located(url)
        if not any(is_below(url, prefix) for prefix in prefixes):
            hint = setting_hint("STREAMSVM_IMPORT_SOURCES", prefixes)
            raise ServiceError("import_forbidden", "the service does not import from there", hint)
        check_installed(location)
    except InputError as error:
        refused = ServiceError.of(error.problem())
        if error.code == "source_scheme":
            refused.hint = "There are s3://, gs:// and az://. What HTTP gives: curl -L URL | curl -T - DATASET_URL."
        raise refused from None


def setting_hint(name: str, prefixes: Sequence[str]) -> str:
    """Write a hint to set the variable of this name, which now allows URLs with these prefixes."""
    allowed = f"It allows {', '.join(prefixes)}." if prefixes else "It is not set."
    return f"Whoever runs the service sets {name}, such as s3://bucket/. {allowed}"


def _invalid() -> ServiceError:
    return ServiceError(
        "import_invalid", "this names no file of the import directory", "Give a path below it that has no links."
    )


class Importer:
    """A thread that imports until the store has no import to do; call `wake` after adding an import."""

    def __init__(self, settings: Settings, store: Store, pauses: tuple[float, float] = (1.0, 30.0)) -> None:
        self._settings = settings
        self._store = store
        self.background = Background("importer", self._next, pauses)
        self._outcome: tuple[str, dict[str, Any] | None] | None = None  # id of a dataset, what was wrong with it

    def wake(self) -> None:
        """Start the thread unless it is running."""
        self.background.wake()

    def _next(self) -> bool:
        """Do the next import, unless the outcome of the last is still to be recorded; return False if none waits."""
        if self._outcome is None and (record := self._store.next_import()) is not None:
            self._outcome = record["id"], self._import(record)
        if self._outcome is None:
            return False
        self._record(*self._outcome)
        self._outcome = None
        return True

    def _record(self, dataset_id: str, problem: dict[str, Any] | None) -> None:
        directory = self._settings.datasets / dataset_id
        if problem is not None:
            self._store.fail_dataset(dataset_id, problem)
            unmark(directory)
        elif self._store.set_dataset_ready(dataset_id):
            unmark(directory)
        else:
            self._give_up(directory)

    def _import(self, record: dict[str, Any]) -> dict[str, Any] | None:
        """Do an import; return its problem, None if the dataset is complete or was deleted. Raises sqlite3.Error."""
        dataset_id, source = record["id"], record["source"]
        directory = self._settings.datasets / dataset_id
        try:
            mark(directory)
            with (
                self._opened(source["import"]) as file,
                Ingesting(
                    file, directory, self._settings, InputOptions(**source["options"]), machines=source.get("machines")
                ) as ingesting,
            ):
                # If the dataset is deleted meanwhile, leaving the context ends the child process.
                while self._store.dataset_state(dataset_id) and not ingesting.is_done():
                    time.sleep(_POLL_SECONDS)
            return None
        except (InputError, ServiceError) as error:
            problem = error.problem()
        except OSError as error:
            full = ServiceError("out_of_space", "the disk is full", ROOM_HINT)
            problem = (full if error.errno in NO_ROOM else ingest_failed()).problem()
        except sqlite3.Error:
            self._give_up(directory)
            raise
        except Exception:
            _log.exception("an import ended in an error that nobody foresaw")
            problem = ingest_failed().problem()
        self._give_up(directory)
        return problem

    def _give_up(self, directory: Path) -> None:
        forget(directory, self._settings)
        shutil.rmtree(staged_path(directory), ignore_errors=True)

    def _opened(self, name: str) -> AbstractContextManager[IO[bytes] | list[str]]:
        if is_url(name):
            check_source(self._settings.import_sources, name)
            return nullcontext([name])
        return open_import(self._settings.import_dir, name)
