"""A part of a source, read in on the machine that is to have it."""

from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from reader.errors import InputError
from reader.ingest.progress import read_progress
from reader.ingest.run import ingest
from service.cluster.origin import Origin
from service.errors import ServiceError, needing_space
from storage.dataset import staged_path
from storage.feature_words import FeatureWords, read_words
from storage.features.statistics import FeatureStatistics, read_statistics
from storage.manifest import Manifest
from storage.profile import Profile, read_profile


@dataclass(frozen=True)
class ReadIn:
    """What a part has turned out to be."""

    manifest: Manifest
    statistics: FeatureStatistics | None
    words: FeatureWords | None
    profile: Profile | None


class PartReading:
    """Reads in a thread, until the process ends; look at `state`."""

    def __init__(self, directory: Path, origin: Origin, number: int) -> None:
        self._directory, self._origin, self._number = directory, origin, number
        self._found: Manifest | None = None
        self._error: Exception | None = None
        self._thread = Thread(target=self._read, name="reading", daemon=True)
        self._thread.start()

    def state(self) -> dict[str, Any] | ReadIn:
        """How far it is, as `reader.ingest.progress` has it, or what it came to. ServiceError for what is wrong."""
        if self._thread.is_alive():
            return read_progress(staged_path(self._directory)) or {}
        if isinstance(self._error, InputError):
            raise ServiceError.of(self._error.problem())
        if self._error is not None:
            raise self._error
        assert self._found is not None
        own = self._directory
        return ReadIn(self._found, read_statistics(own), read_words(own), read_profile(own))

    def _read(self) -> None:
        origin, number = self._origin, self._number
        try:
            with needing_space():
                settled = origin.settled.of_part(number)
                self._found = ingest(
                    origin.part(number), self._directory, origin.options, origin.limits, settled=settled
                )
        except Exception as error:
            self._error = error
