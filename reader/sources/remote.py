"""Object stores through fsspec: the one place that imports it.

Who it is, and where the store is, the libraries take from the environment alone (AWS_*, GOOGLE_APPLICATION_CREDENTIALS,
AZURE_STORAGE_*). Nothing of it is passed here, so nothing of it can be shown.
"""

import logging
from typing import Any

from streamsvm.reader.sources.locations import begin_of_pattern, is_pattern
from streamsvm.reader.sources.patterns import Pattern

_VERSIONS = ("ETag", "etag", "generation", "mtime", "LastModified", "last_modified", "updated", "created")
# Lists are not kept: a file is looked at to see whether it has changed.
_OPTIONS: dict[str, dict[str, Any]] = {
    "s3": {
        "config_kwargs": {
            "connect_timeout": 10,
            "read_timeout": 30,
            "retries": {"max_attempts": 1, "mode": "standard"},
            "max_pool_connections": 16,
        }
    },
}


class RemoteStore:
    """A `Store` over a file system of fsspec."""

    def __init__(self, system: Any) -> None:
        self._system = system

    @classmethod
    def of_scheme(cls, scheme: str) -> "RemoteStore":
        """The store at the address, and with the credentials, of the environment."""
        import fsspec  # noqa: PLC0415

        for name in ("botocore", "aiobotocore", "s3fs", "gcsfs", "adlfs", "azure", "google"):
            # What they log at lower levels are heads of requests.
            logging.getLogger(name).setLevel(logging.ERROR)
        system = fsspec.filesystem(scheme, use_listings_cache=False, **_OPTIONS.get(scheme, {}))
        # `pieces` tries again itself, from where a connection broke.
        system.retries = 1
        return cls(system)

    def find(self, path: str) -> list[tuple[str, int, str]]:
        """Folders are left out."""
        if not is_pattern(path):
            return [self.look(path)]
        pattern, found = Pattern(path), self._below(path)
        # Some of the library's file systems put a slash before the names of buckets.
        matching = {name: info for name, info in found.items() if pattern.matches(name.removeprefix("/"))}
        return [_told(name, info) for name, info in matching.items() if _is_file(name, info)]

    def _below(self, path: str) -> dict[str, Any]:
        """Find what begins as a pattern does, no deeper than it reaches. (The library's `glob` can take for ever.)"""
        first = begin_of_pattern(path)
        folder, _, prefix = path[:first].rpartition("/")
        depth = None if "**" in path else path[len(folder) + 1 :].count("/") + 1
        more = {"prefix": prefix} if prefix else {}
        return self._system.find(f"{folder}/", maxdepth=depth, withdirs=True, detail=True, **more)

    def look(self, path: str) -> tuple[str, int, str]:
        """Raises IsADirectoryError for a folder, and what the library raises."""
        info = self._system.info(path)
        if not _is_file(path, info):
            raise IsADirectoryError
        return _told(path, info)

    def read(self, path: str, start: int, stop: int) -> bytes:
        """Bytes [start, stop), fewer where the file ends before."""
        return self._system.cat_file(path, start=start, end=stop)


def _told(path: str, info: dict[str, Any]) -> tuple[str, int, str]:
    version = next((str(info[name]) for name in _VERSIONS if info.get(name)), "")
    return path, int(info["size"]), version.strip('"')


def _is_file(path: str, info: dict[str, Any]) -> bool:
    steps = {".", ".."} & set(path.split("/"))
    return info["type"] == "file" and not path.endswith("/") and not steps
