"""Fixtures: stores in memory."""

import fsspec
import pytest

from streamsvm.reader.sources import files
from streamsvm.reader.sources.files import RemoteStore


class Flaky:
    """A store whose reads fail or come short as a list says, None: a whole read; `asked` has all requests."""

    def __init__(self, store):
        self._store = store
        self.faults = []
        self.asked = []
        self.before_read = lambda: None

    def find(self, path):
        return self._store.find(path)

    def look(self, path):
        return self._store.look(path)

    def read(self, path, start, stop):
        self.before_read()
        self.asked.append((path, start, stop))
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, int):
            return self._store.read(path, start, min(stop, start + fault))
        if fault is not None:
            raise fault
        return self._store.read(path, start, stop)


@pytest.fixture
def memory(monkeypatch):
    """A file system in memory for s3://: a file bucket/key is s3://bucket/key."""
    system = fsspec.filesystem("memory", skip_instance_cache=True)
    system.store.clear()
    flaky = Flaky(_Unrooted(system))
    monkeypatch.setitem(files.STORES, "s3", flaky)
    system.flaky = flaky
    yield system
    system.store.clear()


class _Unrooted(RemoteStore):
    """Names of files in memory begin with a slash."""

    def find(self, path):
        return [(name.removeprefix("/"), size, version) for name, size, version in super().find(path)]

    def look(self, path):
        name, size, version = super().look(path)
        return name.removeprefix("/"), size, version
