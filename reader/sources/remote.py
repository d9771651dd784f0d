"""Reads object stores, and writes files to them, through fsspec, which no other module imports.

The libraries take credentials and addresses from the environment alone (AWS_*, GOOGLE_APPLICATION_CREDENTIALS,
AZURE_STORAGE_*). They never pass through this module, so that no error can show them.
"""

import logging
from pathlib import Path
from typing import Any

from streamsvm.reader.sources.locations import Pattern, begin_of_pattern, is_pattern

_VERSIONS = ("ETag", "etag", "generation", "mtime", "LastModified", "last_modified", "updated", "created")
# The libraries' caches of listings are off: `look` has to see whether a file has changed.
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
        """Open the store, at the address and with the credentials of the environment."""
        import fsspec  # noqa: PLC0415

        for name in ("botocore", "aiobotocore", "s3fs", "gcsfs", "adlfs", "azure", "google"):
            # At lower levels they log heads of requests.
            logging.getLogger(name).setLevel(logging.ERROR)
        system = fsspec.filesystem(scheme, use_listings_cache=False, **_OPTIONS.get(scheme, {}))
        # `pieces` itself tries again, from the byte where a connection broke.
        system.retries = 1
        return cls(system)

    def find(self, path: str) -> list[tuple[str, int, str]]:
        """See `Store`. Folders are left out."""
        if not is_pattern(path):
            return [self.look(path)]
        pattern = Pattern(path)
        # Some file systems of fsspec put a slash before the names of buckets.
        matching = {name: info for name, info in self._below(path).items() if pattern.matches(name.removeprefix("/"))}
        return [_description(name, info) for name, info in matching.items() if _is_file(name, info)]

    def _below(self, path: str) -> dict[str, Any]:
        """List the files that begin like a pattern, no deeper than it reaches. (fsspec's `glob` can take for ever.)"""
        first = begin_of_pattern(path)
        folder, _, prefix = path[:first].rpartition("/")
        depth = None if "**" in path else path[len(folder) + 1 :].count("/") + 1
        more = {"prefix": prefix} if prefix else {}
        return self._system.find(f"{folder}/", maxdepth=depth, withdirs=True, detail=True, **more)

    def look(self, path: str) -> tuple[str, int, str]:
        """See `Store`. Raises IsADirectoryError for a folder, and the library's errors."""
        info = self._system.info(path)
        if not _is_file(path, info):
            raise IsADirectoryError
        return _description(path, info)

    def read(self, path: str, start: int, stop: int) -> bytes:
        """Bytes [start, stop) of a file, fewer if it ends before."""
        return self._system.cat_file(path, start=start, end=stop)

    def write(self, path: str, source: Path) -> None:
        """Write a file of this machine to the store, which shows it when all of it has arrived."""
        self._system.put_file(str(source), path)


def _description(path: str, info: dict[str, Any]) -> tuple[str, int, str]:
    version = next((str(info[name]) for name in _VERSIONS if info.get(name)), "")
    return path, int(info["size"]), version.strip('"')


def _is_file(path: str, info: dict[str, Any]) -> bool:
    steps = {".", ".."} & set(path.split("/"))
    return info["type"] == "file" and not path.endswith("/") and not steps
