"""Reads a shard of a source on the machine that keeps the shard; removes the files of unfinished reading."""

import os
import shutil
import subprocess
import uuid
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.run import ingest
from streamsvm.service.cluster.dataset.shards import Origin
from streamsvm.service.errors import needing_space, refusing
from streamsvm.storage.blocks.dataset import Dataset, read_progress, staged_path
from streamsvm.storage.blocks.feature_files import FeatureWords, read_words
from streamsvm.storage.blocks.manifest import Manifest, Profile, read_manifest, read_profile, write_manifest
from streamsvm.storage.errors import DatasetCorrupt
from streamsvm.storage.features.rows import FeatureStatistics, read_statistics
from streamsvm.storage.files.durable import publish
from streamsvm.storage.rows.csr import INDEX, Array

# The shell leaves a grandchild, which outlives the actor: Ray ends only an actor's children with the actor.
_WAIT = 'exec 3<&0; (cat <&3; rm -rf -- "$0") > /dev/null 2>&1 &'


class DirectoryRemover:
    """A process that removes a directory when this process ends. `remove` removes the directory at once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        reading, self._writing = os.pipe()
        subprocess.run(["sh", "-c", _WAIT, str(directory)], stdin=reading, start_new_session=True, check=True)
        os.close(reading)

    def remove(self) -> None:
        """Remove the directory before returning."""
        shutil.rmtree(self._directory, ignore_errors=True)
        os.close(self._writing)


@dataclass(frozen=True)
class ReadIn:
    """A shard that has been read in: its manifest, statistics, words, profile, and list of features."""

    manifest: Manifest
    statistics: FeatureStatistics | None
    words: FeatureWords | None
    profile: Profile | None
    listed: Array


class ShardReading:
    """Reads a shard in a thread. Callers poll `state`, then keep the shard by `settle` or remove it by `remove`.

    A shard that was not settled is removed when the process ends.

    directory  where `settle` puts the shard; it does not exist yet
    """

    def __init__(self, directory: Path, origin: Origin, number: int) -> None:
        self._final, self._origin, self._number = directory, origin, number
        self._work = directory.with_name(f".{directory.name}.{uuid.uuid4().hex}")
        self._leftovers = DirectoryRemover(self._work)
        self._directory = self._work / "part"
        self._found: Future[Manifest] = Future()
        Thread(target=self._read, name="reading", daemon=True).start()

    def state(self) -> dict[str, Any] | ReadIn:
        """Return the progress (see `IngestProgress`), or the shard once read. Raises ServiceError: bad data."""
        own = self._directory
        if not self._found.done():
            return read_progress(staged_path(own)) or {}
        with refusing(InputError):
            found = self._found.result()
        listed = Dataset(own).listed() if found.listed else np.zeros(0, INDEX)
        return ReadIn(found, read_statistics(own), read_words(own), read_profile(own), listed)

    def settle(self, manifest: Manifest) -> None:
        """Keep the shard under this manifest. Raises DatasetCorrupt if it lists other blocks than those read in."""
        if read_manifest(self._directory).blocks != manifest.blocks:
            raise DatasetCorrupt("what was read in is not what it was before")
        write_manifest(self._directory, manifest)
        publish(self._directory, self._final)
        self.remove()

    def remove(self) -> None:
        """Remove the files of the shard that was read in."""
        self._leftovers.remove()

    def _read(self) -> None:
        origin, number = self._origin, self._number
        try:
            with needing_space():
                self._work.mkdir()
                part, settled = origin.shard(number), origin.settled.for_shard(number)
                found = ingest(part, self._directory, origin.options, origin.limits, schema=settled)
            self._found.set_result(found)
        except Exception as error:
            self._found.set_exception(error)
