"""When kernels are compiled, and how long that takes. Quick to import.

Compiled kernels on disk are valid until the stamp of all kernels' sources, a hash, changes. At their first use kernels
take seconds to minutes.
"""

import hashlib
import os
import re
import sys
import time
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from streamsvm.storage.machine.child import PARENT_VARIABLE

TREE = Path(__file__).resolve().parents[2]
_LAYERS = ("storage", "reader", "trainer", "service")
_IMPORT = re.compile(rf"^from streamsvm\.((?:{'|'.join(_LAYERS)})[\w.]*) import".encode(), re.MULTILINE)
_COMPILERS = ("numba", "llvmlite")


@cache
def stamp() -> str:
    """Return the stamp of this program: a hash of its kernels' sources and of the compilers' versions."""
    return stamp_of(TREE)


def stamp_of(tree: Path) -> str:
    """Return the stamp of the program at `tree`. It covers every module with kernels, and all modules they import.

    numba compiles the functions that a kernel calls, and the constants it uses, into the kernel, but looks for changes
    in the kernel's own file only.
    """
    digest = hashlib.blake2b(digest_size=16)
    for source, text in sorted(_with_imported(tree, kernel_modules(tree)).items()):
        digest.update(str(source.relative_to(tree)).encode() + b"\0" + text + b"\0")
    for name in _COMPILERS:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            version = Path(spec.origin).with_name("_version.py")
            digest.update(version.read_bytes() if version.exists() else b"")
    return digest.hexdigest()


def kernel_modules(tree: Path) -> set[Path]:
    """Return the paths of the modules of `tree` that contain kernels."""
    by_name = {path for layer in _LAYERS for path in (tree / layer).rglob("*_kernel.py")}
    return {*by_name, *(tree / "trainer" / "kernels").glob("*.py"), tree / "storage" / "rows" / "csr.py"}


def _with_imported(tree: Path, modules: set[Path]) -> dict[Path, bytes]:
    """Return path -> text of the modules, and of all modules of the program that they import, also indirectly."""
    sources: dict[Path, bytes] = {}
    while modules:
        texts = {path: path.read_bytes() for path in modules}
        sources |= texts
        names = {name for text in texts.values() for name in _IMPORT.findall(text)}
        places = {tree.joinpath(*name.decode().split(".")) for name in names}
        candidates = {path for place in places for path in (place.with_suffix(".py"), place / "__init__.py")}
        modules = {path for path in candidates - sources.keys() if path.exists()}
    return sources


COMPILING = "compiling kernels, once"
NOTICED_SECONDS = 1.0


class CompileTime:
    """Adds up the seconds in which kernels are compiled, in any thread; numba compiles one kernel at a time.

    tell  a function that is called with the time.monotonic when compiling begins, and with 0.0 when it ends
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.tell: Callable[[float], object] = lambda _since: None
        self._clock = clock
        self._depth = 0  # nesting: compiling a kernel compiles the kernels that it calls
        # Seconds of ended compilations, and when the current one began (0.0: none runs); threads read both at once.
        self._state = 0.0, 0.0

    @property
    def seconds(self) -> float:
        """Seconds so far, including those of a kernel that is being compiled now."""
        before, since = self._state
        return before + (self._clock() - since if since else 0.0)

    def begin(self) -> None:
        """Record that numba begins to compile a kernel."""
        self._depth += 1
        if self.seconds > NOTICED_SECONDS and PARENT_VARIABLE not in os.environ:
            say_compiling()
        if self._depth == 1:
            self._state = self._state[0], self._clock()
            self.tell(self._state[1])

    def end(self) -> None:
        """Record that numba has compiled a kernel, or has failed to compile it."""
        self._depth -= 1
        if self._depth == 0:
            self._state = self.seconds, 0.0
            self.tell(0.0)


@cache
def say_compiling() -> None:
    """Print, once in a process, that kernels are being compiled: a user sees why the first training is slow."""
    print(f"streamsvm: {COMPILING}, for some 20 s", file=sys.stderr, flush=True)


COMPILE_TIME = CompileTime()  # the times of this process, see storage.machine.compiled
