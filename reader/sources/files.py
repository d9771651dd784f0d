"""Lists the files of a source, on disks and in the object stores that fsspec reads. No other module imports fsspec.

fsspec's libraries take credentials and addresses from the environment only (AWS_*, GOOGLE_APPLICATION_CREDENTIALS,
AZURE_STORAGE_*). Credentials never pass through this module, so its errors cannot show them. It does not pass on the
texts of the libraries' errors either: they may contain user names and keys.
"""

import glob
import logging
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from streamsvm.reader.errors import InputError
from streamsvm.reader.sources.locations import (
    LOCAL,
    Location,
    Pattern,
    begin_of_pattern,
    check_installed,
    is_pattern,
    located,
)

PAUSES = (0.1, 0.3, 1.0, 3.0, 10.0)  # seconds before each retry; the error of the last retry is raised
_FOLDERS = "**"
Answer = TypeVar("Answer")

# Names of exceptions of botocore, google-auth and azure, which need not be installed.
_WITHOUT_RIGHTS = {
    "NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "TokenRetrievalError",
    "ProfileNotFound", "NoAuthTokenError", "DefaultCredentialsError", "RefreshError", "ClientAuthenticationError",
}  # fmt: skip
_NOT_THERE = {"ResourceNotFoundError"}
_WRONG_STATUS = {401: "source_denied", 403: "source_denied", 404: "source_not_found"}

_VERSIONS = ("ETag", "etag", "generation", "mtime", "LastModified", "last_modified", "updated", "created")
# The libraries' caches of listings are turned off, since `look` has to see whether a file has changed.
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

Found = tuple[str, int, str]  # path, size and version of a file


@dataclass(frozen=True)
class SourceFile:
    """A file of a source, as it was when `list_files` listed it.

    url      scheme://bucket/key, or a path
    size     size in bytes
    version  a text that changes when the file does, such as its ETag or its modification time
    """

    url: str
    size: int
    version: str


class LocalStore:
    """The files on a disk, or on a file system that machines share. All methods raise OSError."""

    def find(self, path: str) -> list[Found]:
        """Return the file at `path`, even if `path` looks like a pattern; else all files that match the pattern."""
        if not glob.has_magic(path) or os.path.isfile(path):  # noqa: PTH113 - it raises nothing for long names
            return [self.look(path)]
        names = _below(path) if _FOLDERS in path.split("/") else glob.iglob(path)  # noqa: PTH207 - may be below a folder
        return [self.look(name) for name in names if Path(name).is_file()]

    def look(self, path: str) -> Found:
        """Return the file's present size and version. Raises IsADirectoryError unless it is a regular file."""
        status = Path(path).stat()
        if not stat.S_ISREG(status.st_mode):
            raise IsADirectoryError
        return path, status.st_size, f"{status.st_ino}-{status.st_mtime_ns}"

    def read(self, path: str, start: int, stop: int) -> bytes:
        """Read bytes [start, stop) of a file, fewer if the file ends before `stop`."""
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(file, stop - start, start)
        finally:
            os.close(file)


class RemoteStore:
    """The files of an object store, read through fsspec. Methods as in `LocalStore`; they raise errors of fsspec."""

    def __init__(self, system: Any) -> None:
        self._system = system

    @classmethod
    def of_scheme(cls, scheme: str) -> "RemoteStore":
        """Open the store of this URL scheme, at the address and with the credentials that the environment gives."""
        import fsspec  # noqa: PLC0415 - an extra, and slow to import

        for name in ("botocore", "aiobotocore", "s3fs", "gcsfs", "adlfs", "azure", "google"):
            # Below this level the libraries log headers of requests.
            logging.getLogger(name).setLevel(logging.ERROR)
        system = fsspec.filesystem(scheme, use_listings_cache=False, **_OPTIONS.get(scheme, {}))
        # `fetch.read_bytes` retries, from the byte at which a connection broke; the library must not retry.
        system.retries = 1
        return cls(system)

    def find(self, path: str) -> list[Found]:
        """Return the file at `path`, or all files, but no folders, that match the pattern `path`.

        Lists only names that begin as the pattern does, down to its depth: fsspec's `glob` can take for ever.
        """
        if not is_pattern(path):
            return [self.look(path)]
        folder, _, prefix = path[: begin_of_pattern(path)].rpartition("/")
        depth = None if _FOLDERS in path else path[len(folder) + 1 :].count("/") + 1
        more = {"prefix": prefix} if prefix else {}
        below = self._system.find(f"{folder}/", maxdepth=depth, withdirs=True, detail=True, **more)
        pattern = Pattern(path)
        # Some file systems of fsspec put a slash before the names of buckets.
        return [
            _description(name, info)
            for name, info in below.items()
            if pattern.matches(name.removeprefix("/")) and _is_file(name, info)
        ]

    def look(self, path: str) -> Found:
        """Return the file's present size and version. Raises IsADirectoryError for a folder."""
        info = self._system.info(path)
        if not _is_file(path, info):
            raise IsADirectoryError
        return _description(path, info)

    def read(self, path: str, start: int, stop: int) -> bytes:
        """Read bytes [start, stop) of a file, fewer if the file ends before `stop`."""
        return self._system.cat_file(path, start=start, end=stop)

    def write(self, path: str, source: Path) -> None:
        """Copy the local file `source` to the store at `path`; the store shows it once the copy is complete."""
        self._system.put_file(str(source), path)


# The stores opened so far, by URL scheme.
STORES: dict[str, LocalStore | RemoteStore] = {LOCAL: LocalStore()}


def list_files(urls: Sequence[str]) -> list[SourceFile]:
    """List the files that URLs, paths or patterns name, in their order; files of one pattern are sorted by name.

    Raises InputError source_not_found, source_empty, source_denied, source_unavailable, not_installed, and the errors
    of `located`.
    """
    return [file for url in urls for file in _files_of(url, located(url))]


def _files_of(url: str, location: Location) -> list[SourceFile]:
    files = persistently(partial(store_of(location).find, location.path), url)
    if not files:
        raise InputError("source_empty", f"no file matches {url}")
    return [SourceFile(location.url_of(path), size, version) for path, size, version in sorted(files)]


def store_of(location: Location) -> LocalStore | RemoteStore:
    """Return the store that holds the location; open it if needed. Raises InputError not_installed."""
    if location.scheme not in STORES:
        check_installed(location)
        STORES[location.scheme] = RemoteStore.of_scheme(location.scheme)
    return STORES[location.scheme]


def persistently(call: Callable[[], Answer], url: str, pauses: Sequence[float] = PAUSES) -> Answer:
    """Return the result of `call`; retry after each pause if the store is unavailable. Raises InputError for `url`."""
    for pause in (*pauses, None):
        try:
            return call()
        except Exception as error:
            translated = fault(error, url)
            if translated.code != "source_unavailable" or pause is None:
                raise translated from None
            time.sleep(pause)
    raise AssertionError


def fault(error: Exception, url: str) -> InputError:
    """Turn a store's error about the file `url` into an InputError; after `source_unavailable` a retry may succeed."""
    code = _fault_code(error)
    said = {
        "source_denied": f"{url} may not be read",
        "source_not_found": f"there is no {url}",
        "source_invalid": f"{url} cannot be the name of a file there",
        "source_is_folder": f"{url} is no file",
        "source_unavailable": f"{url} cannot be read ({type(error).__name__})",
    }
    return InputError(code, said[code])


def _fault_code(error: BaseException) -> str:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, PermissionError) or kinds & _WITHOUT_RIGHTS:
        return "source_denied"
    if isinstance(error, FileNotFoundError | NotADirectoryError) or kinds & _NOT_THERE:
        return "source_not_found"
    if isinstance(error, ValueError):
        return "source_invalid"
    if isinstance(error, IsADirectoryError):
        return "source_is_folder"
    status = getattr(error, "code", None) or getattr(error, "status_code", None)
    return _WRONG_STATUS.get(status, "source_unavailable") if isinstance(status, int) else "source_unavailable"


def _below(path: str) -> Iterator[str]:
    """Yield each file that matches a pattern with `**` once; `glob` would yield it once for each way to match."""
    pattern, parts = Pattern(path), path.split("/")
    fixed = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    begin = "/".join(parts[:fixed])
    for folder, folders, files in os.walk(begin or (os.sep if fixed else os.curdir), followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        inside = folder if fixed else folder.removeprefix(os.curdir).lstrip("/")
        paths = (str(Path(inside, name)) for name in files if not name.startswith("."))
        yield from filter(pattern.matches, paths)


def _description(path: str, info: dict[str, Any]) -> Found:
    version = next((str(info[name]) for name in _VERSIONS if info.get(name)), "")
    return path, int(info["size"]), version.strip('"')


def _is_file(path: str, info: dict[str, Any]) -> bool:
    steps = {".", ".."} & set(path.split("/"))
    return info["type"] == "file" and not path.endswith("/") and not steps
