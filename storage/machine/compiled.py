"""numba's `njit` for all kernels: what it keeps on disk is used as long as no source of any kernel has changed."""

from collections.abc import Callable
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile

from streamsvm.storage.machine.kernel_sources import stamp


class _Index(IndexDataCacheFile):
    """Compiled versions of a function by the types of its arguments, of which some are classes of ours."""

    def _load_index(self) -> dict:
        try:
            return super()._load_index()
        except (ImportError, AttributeError):  # such a class has moved since
            return {}


class _Kept(FunctionCache):
    """Kept where numba would; its own stamp is of the function's file alone."""

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        both = stamp(), self._impl.locator.get_source_stamp()
        self._cache_file = _Index(self.cache_path, self._impl.filename_base, both)


def njit(**options: Any) -> Any:
    """numba's njit, always with cache=True."""
    assert options.pop("cache"), "a kernel that is not kept is compiled in every process"

    def compile_(function: Callable) -> Any:
        dispatcher = numba.njit(**options)(function)
        if dispatcher is not function:  # as it is where numba is told not to compile
            dispatcher._cache = _Kept(function)
        return dispatcher

    return compile_
