"""numba's `njit` for all kernels: compiled code on disk is used until the source of any kernel changes.

Where neither the installation nor a cache at home can be written, kernels are kept in the temporary directory.
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

from streamsvm.storage.machine.compile_time import COMPILE_TIME
from streamsvm.storage.machine.kernel_sources import stamp


class _Watch(Listener):
    """Measures the time for which numba compiles; kernels that are on disk are not compiled."""

    def on_start(self, event: Any) -> None:
        COMPILE_TIME.begin()

    def on_end(self, event: Any) -> None:
        COMPILE_TIME.end()


register("numba:compile", _Watch())


class _Index(IndexDataCacheFile):
    """The compiled versions of a function by the types of its arguments, some of which are classes of this program."""

    def _load_index(self) -> dict:
        try:
            return super()._load_index()
        except (ImportError, AttributeError):  # a class has moved since the index was written
            return {}


class _Cache(FunctionCache):
    """numba's cache with a stamp of all kernels: numba's own covers the function's file alone."""

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        both = stamp(), self._impl.locator.get_source_stamp()
        self._cache_file = _Index(self.cache_path, self._impl.filename_base, both)


def njit(**options: Any) -> Any:
    """numba's njit, always with cache=True."""
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
    """Have this process, and those that it starts, keep kernels in a directory that this user alone can write.

    PermissionError if another user has made it: numba would run what is in it.
    """
    kept = Path(tempfile.gettempdir()) / f"streamsvm-kernels-{os.getuid()}"
    kept.mkdir(mode=0o700, exist_ok=True)
    if kept.lstat().st_uid != os.getuid() or kept.is_symlink():
        raise PermissionError(f"{kept} belongs to another user: set NUMBA_CACHE_DIR to a directory of your own")
    print(f"streamsvm: compiled kernels are kept in {kept}; NUMBA_CACHE_DIR names another directory", file=sys.stderr)
    os.environ["NUMBA_CACHE_DIR"] = str(kept)
    numba.config.reload_config()
