"""Parses and checks the URL or path of an input, without access to a store; matches names with patterns.

    s3://BUCKET/KEY    gs://BUCKET/KEY    az://CONTAINER/KEY    file:///PATH    /PATH

A key may be a pattern: `*` and `[...]` match within a folder, `**` matches any folders. Credentials come from the
environment. A URL that contains credentials is an error, whose message does not repeat the URL.
"""

import fnmatch
import re
from dataclasses import dataclass
from importlib.util import find_spec

from streamsvm.reader.errors import InputError

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_PATTERN = re.compile(r"[*\[]")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FOLDERS = "**"


@dataclass(frozen=True)
class Scheme:
    """A kind of store: the Python module that reads it, and this package's extra that installs the module."""

    module: str
    extra: str


SCHEMES = {
    "s3": Scheme("s3fs", "s3"),
    "gs": Scheme("gcsfs", "gcs"),
    "az": Scheme("adlfs", "azure"),
}
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


def begin_of_pattern(path: str) -> int:
    """Return the index of the first `*` or `[` in a path; the length of a path without these characters."""
    match = _PATTERN.search(path)
    return len(path) if match is None else match.start()


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
    if not key or not _is_plain(key):
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
    scheme = SCHEMES.get(location.scheme)
    if scheme is not None and (find_spec("fsspec") is None or find_spec(scheme.module) is None):
        message = f"reading {location.scheme}:// needs {scheme.module}"
        raise InputError("not_installed", message, hint=f"pip install 'streamsvm[{scheme.extra}]'")


def _is_plain(key: str) -> bool:
    """Whether a key is printable and has no parts `.` or `..`, which HTTP libraries may resolve."""
    return key.isprintable() and not {".", ".."} & set(key.split("/"))


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
