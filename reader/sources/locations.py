"""Where data are: a URL or a path, taken apart and checked before anything is asked of a store.

    s3://BUCKET/KEY    gs://BUCKET/KEY    az://CONTAINER/KEY    file:///PATH    /PATH

A key may be a pattern: `*` and `[...]` within a folder, `**` through all folders. Credentials come from the environment
and are never part of a URL: one that has any is refused, and is not repeated in the error.
"""

import re
from dataclasses import dataclass
from importlib.util import find_spec

from streamsvm.reader.errors import InputError

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_PATTERN = re.compile(r"[*\[]")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Scheme:
    """A kind of store: the module that speaks to it, and the extra that installs it."""

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
    """scheme: of SCHEMES, or LOCAL; path: bucket/key, or a path of this machine."""

    scheme: str
    path: str

    @property
    def is_pattern(self) -> bool:
        """Whether it may stand for several files."""
        return _PATTERN.search(self.path) is not None

    def url_of(self, path: str) -> str:
        """How a file of this store is called: a local one by its path."""
        return path if self.scheme == LOCAL else f"{self.scheme}://{path}"


def is_url(text: str) -> bool:
    """Whether a text names a store, not a file by its path."""
    return _URL.match(text) is not None


def is_pattern(text: str) -> bool:
    """Whether a path may stand for several files."""
    return _PATTERN.search(text) is not None


def begin_of_pattern(path: str) -> int:
    """Place of the first character that stands for others; the length of a path without any."""
    found = _PATTERN.search(path)
    return len(path) if found is None else found.start()


def located(text: str) -> Location:
    """Take a URL or a path apart. InputError source_scheme, source_credentials, source_invalid."""
    found = _URL.fullmatch(text)
    if found is None:
        return Location(LOCAL, text)
    scheme, rest = found[1].lower(), found[2]
    if scheme == LOCAL:
        if not rest.startswith("/"):
            raise InputError("source_invalid", "a file:// URL has a whole path: file:///folder/file")
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
    """Whether all that a URL may stand for lies in the folder `prefix` of a store, or is the file of this name.

    Raises what `located` raises.
    """
    location = located(text)
    if location.scheme == LOCAL:
        return False
    url, folder = location.url_of(location.path), prefix.rstrip("/")
    return url == folder or url.startswith(f"{folder}/")


def check_installed(location: Location) -> None:
    """InputError not_installed if what speaks to the store is missing. Imports nothing."""
    scheme = SCHEMES.get(location.scheme)
    if scheme is not None and (find_spec("fsspec") is None or find_spec(scheme.module) is None):
        message = f"reading {location.scheme}:// needs {scheme.module}"
        raise InputError("not_installed", message, hint=f"pip install 'streamsvm[{scheme.extra}]'")


def _is_plain(key: str) -> bool:
    """Libraries that speak HTTP may take . and .. for steps between folders."""
    return key.isprintable() and not {".", ".."} & set(key.split("/"))
