"""Removes what predictions of files left that have ended: pieces, and unfinished files at destinations."""

import logging
import shutil
from pathlib import Path
from typing import Any

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.progress.progress import read_json
from streamsvm.service.predictions.destinations import remove_unfinished
from streamsvm.service.predictions.process import ASKED
from streamsvm.service.predictions.spec import destination_of
from streamsvm.service.records.predictions import PREDICTION_STATES
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings

_log = logging.getLogger("streamsvm.predictions")


class Leftovers:
    """The directories of the predictions of a data directory."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._store = settings, store
        self._swept: set[str] = set()  # names of directories; one that cannot be removed is tried once

    def sweep(self) -> None:
        """Remove what predictions left that have ended: one may be cancelled while it waits for another attempt."""
        if not self._settings.predictions.is_dir():
            return
        for directory in self._settings.predictions.iterdir():
            if directory.name in self._swept:
                continue
            record = self._known(directory.name)
            if record is None or not PREDICTION_STATES.get(record["state"], ()):
                spec = record["spec"] if record else (read_object(directory / ASKED) or {}).get("spec")
                self.tidy(directory.name, spec)
                self._swept.add(directory.name)

    def tidy(self, prediction_id: str, spec: Any) -> None:
        """Remove pieces, and the unfinished destination; an error here changes nothing in how the prediction ended."""
        try:
            remove_unfinished(destination_of(self._settings, spec["destination"]), prediction_id)
        except Exception as error:
            _log.warning("%s: its destination is not looked at: %s", prediction_id, error or type(error).__name__)
        shutil.rmtree(self._settings.predictions / prediction_id, ignore_errors=True)

    def _known(self, prediction_id: str) -> dict[str, Any] | None:
        try:
            return self._store.prediction(prediction_id)
        except ServiceError:
            return None


def read_object(path: Path) -> dict[str, Any] | None:
    """The object in a file of JSON; None if there is none. Raises OSError if it cannot be read now."""
    try:
        found = read_json(path.read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return found if isinstance(found, dict) else None
