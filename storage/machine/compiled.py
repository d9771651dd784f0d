"""numba's `njit` for all kernels: compiled code on disk stays valid until the source of any kernel changes.

If neither the installation nor the user's cache directory can be written, kernels are stored in a temporary directory.
"""

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.event import Listener, register

from streamsvm.storage.machine.compiling import COMPILE_TIME, stamp


class _Watch(Listener):
    """Measures how long numba compiles kernels; loading compiled kernels from disk does not count."""

    def on_start(self, event: Any) -> None:
        COMPILE_TIME.begin()

    def on_end(self, event: Any) -> None:
        COMPILE_TIME.end()


register("numba:compile", _Watch())


class _Index(IndexDataCacheFile):
    """numba's index of a function's compiled versions by argument types, which may be classes of this program."""

    def _load_index(self) -> dict:
        try:
            return super()._load_index()
        except (ImportError, AttributeError):  # a class has moved since the index was written
            return {}


class _Cache(FunctionCache):
    """numba's cache of a function, valid for a stamp of all kernels; numba's stamp covers only the function's file."""

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        both = stamp(), self._impl.locator.get_source_stamp()
        self._cache_file = _Index(self.cache_path, self._impl.filename_base, both)


def njit(**options: Any) -> Any:
    """Decorate a kernel as numba.njit does, with `_Cache` as its cache; cache=True must be among the options."""
    assert options.pop("cache"), "a kernel without cache=True is compiled in every process"

    def compile_(function: Callable) -> Any:
        dispatcher = numba.njit(**options)(function)
        if dispatcher is not function:  # NUMBA_DISABLE_JIT returns the function itself
            dispatcher._cache = _cache_of(function)
        return dispatcher

    return compile_


def _cache_of(function: Callable) -> Any:
    try:
        return _Cache(function)
    except RuntimeError:  # numba knows no directory that it may write
        if os.environ.get("NUMBA_CACHE_DIR"):
            raise
        _keep_in_temporary_directory()
        return _Cache(function)


def _keep_in_temporary_directory() -> None:
    """Make this process, and its children, store kernels in a temporary directory that only this user can write.

    Raises PermissionError if another user has made the directory: numba would run code from it.
    """
    kept = Path(tempfile.gettempdir()) / f"streamsvm-kernels-{os.getuid()}"
    kept.mkdir(mode=0o700, exist_ok=True)
    if kept.lstat().st_uid != os.getuid() or kept.is_symlink():
        raise PermissionError(f"{kept} belongs to another user: set NUMBA_CACHE_DIR to a directory of your own")
    print(f"streamsvm: compiled kernels are kept in {kept}; NUMBA_CACHE_DIR names another directory", file=sys.stderr)
    os.environ["NUMBA_CACHE_DIR"] = str(kept)
    numba.config.reload_config()
