"""Lists the files of a source, in stores: a disk, or what fsspec reads, which no other module imports.

    s3://BUCKET/KEY    gs://BUCKET/KEY    az://CONTAINER/KEY    file:///PATH    /PATH

A key may be a pattern: `*` and `[...]` match within a folder, `**` matches any folders. A URL is checked before a store
is asked for anything; one with credentials is refused, and not repeated in the error.

The libraries take credentials and addresses from the environment alone (AWS_*, GOOGLE_APPLICATION_CREDENTIALS,
AZURE_STORAGE_*). They never pass through this module, so that no error can show them. Texts of the libraries' errors
are not passed on either: they may hold user names and keys.
"""

import fnmatch
import glob
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from streamsvm.reader.errors import InputError

PAUSES = (0.1, 0.3, 1.0, 3.0, 10.0)  # seconds before each retry; the error of the last retry is raised
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

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_PATTERN = re.compile(r"[*\[]")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FOLDERS = "**"
Found = tuple[str, int, str]  # path, size and version of a file


# Kinds of stores: the Python module that reads each, and this package's extra that installs the module.
SCHEMES = {"s3": ("s3fs", "s3"), "gs": ("gcsfs", "gcs"), "az": ("adlfs", "azure")}
LOCAL = "file"


@dataclass(frozen=True)
class Location:
    """The parsed URL of a file or pattern. scheme: a key of SCHEMES, or LOCAL; path: bucket/key, or a local path."""

    scheme: str
    path: str

    def url_of(self, path: str) -> str:
        """Return the URL of the file at `path` in this location's store; for a local file, `path` itself."""
        return path if self.scheme == LOCAL else f"{self.scheme}://{path}"


def is_url(text: str) -> bool:
    """Whether a text has the form of a URL (scheme://...); otherwise it is the path of a file."""
    return _URL.match(text) is not None


def is_pattern(text: str) -> bool:
    """Whether a path contains `*` or `[`, so that it may match several files."""
    return _PATTERN.search(text) is not None


def located(text: str) -> Location:
    """Parse a URL or a path. Raises InputError source_scheme, source_credentials, source_invalid."""
    match = _URL.fullmatch(text)
    if match is None:
        return Location(LOCAL, text)
    scheme, rest = match[1].lower(), match[2]
    if scheme == LOCAL:
        if not rest.startswith("/"):
            raise InputError("source_invalid", "a file:// URL has an absolute path: file:///folder/file")
        return Location(LOCAL, rest)
    if scheme not in SCHEMES:
        raise InputError("source_scheme", f"{scheme}:// cannot be read")
    bucket, _, key = rest.partition("/")
    if "@" in bucket or ":" in bucket or "?" in rest:
        raise InputError("source_credentials", f"a {scheme}:// URL has a user, a port or a query in it")
    if not _BUCKET.fullmatch(bucket):
        raise InputError("source_invalid", f"a {scheme}:// URL begins with a bucket, which is no pattern")
    # Keys are printable and have no steps . and .., which HTTP libraries may resolve.
    if not key or not key.isprintable() or {".", ".."} & set(key.split("/")):
        raise InputError("source_invalid", f"{scheme}://{bucket}/ is followed by no key that can be read")
    return Location(scheme, f"{bucket}/{key}")


def is_below(text: str, prefix: str) -> bool:
    """Whether every file that the URL `text` matches is in the folder `prefix` of a store, or is the file `prefix`.

    False for a path of this machine. Raises the errors of `located`.
    """
    location = located(text)
    if location.scheme == LOCAL:
        return False
    url, folder = location.url_of(location.path), prefix.rstrip("/")
    return url == folder or url.startswith(f"{folder}/")


def check_installed(location: Location) -> None:
    """Raise InputError not_installed if the module that reads the store is missing. Does not import the module."""
    module, extra = SCHEMES.get(location.scheme, (None, None))
    if module is not None and (find_spec("fsspec") is None or find_spec(module) is None):
        message = f"reading {location.scheme}:// needs {module}"
        raise InputError("not_installed", message, hint=f"pip install 'streamsvm[{extra}]'")


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
        folder, _, prefix = _PATTERN.split(path, 1)[0].rpartition("/")
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
    listed: list[SourceFile] = []
    for url in urls:
        location = located(url)
        files = persistently(partial(store_of(location).find, location.path), url)
        if not files:
            raise InputError("source_empty", f"no file matches {url}")
        listed += (SourceFile(location.url_of(path), size, version) for path, size, version in sorted(files))
    return listed


def store_of(location: Location) -> LocalStore | RemoteStore:
    """Return the store that holds the location; open it if needed. Raises InputError not_installed."""
    if location.scheme not in STORES:
        check_installed(location)
        STORES[location.scheme] = RemoteStore.of_scheme(location.scheme)
    return STORES[location.scheme]


def persistently(
    call: Callable[[], Answer],
    url: str,
    pauses: Sequence[float] = PAUSES,
    failed: Callable[[], object] = lambda: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Answer:
    """Return the result of `call`; retry after each pause if the store is unavailable. Raises InputError for `url`.

    failed  is called after each failure, and may raise another error
    """
    for pause in (*pauses, None):
        try:
            return call()
        except Exception as error:
            failed()
            translated = fault(error, url)
            if translated.code != "source_unavailable" or pause is None:
                raise translated from None
            sleep(pause)
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


class Pattern:
    """A pattern of keys, such as `bucket/day=*/part-[0-9].svm`."""

    def __init__(self, text: str) -> None:
        self._parts = [None if part == _FOLDERS else _expression(part) for part in text.split("/")]

    def matches(self, path: str) -> bool:
        """Whether the pattern matches the whole of `path`, which is bucket/key or a local path."""
        names, parts = path.split("/"), self._parts
        name = part = 0
        folders, resumed = -1, 0  # index of the last ** so far, and of the first name that this ** does not match
        while name < len(names):
            if part < len(parts) and (pattern := parts[part]) is None:
                folders, resumed, part = part, name, part + 1
            elif part < len(parts) and pattern is not None and pattern.match(names[name]):
                name, part = name + 1, part + 1
            elif folders >= 0:
                # The last ** matches one folder more; an earlier ** can do no better.
                resumed += 1
                name, part = resumed, folders + 1
            else:
                return False
        return all(rest is None for rest in parts[part:])


def _expression(part: str) -> re.Pattern[str]:
    """Return the expression for one part of a pattern, between two slashes. A part `*` does not match an empty name.

    Expressions of fnmatch never backtrack beyond a star, so no pattern takes long.
    """
    return re.compile((r"(?!\Z)" if part else "") + fnmatch.translate(part))
