"""The sources of compiled kernels: kept ones are good as long as no source changes. Imports nothing that takes time."""

import hashlib
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
_LAYERS = ("storage", "reader", "trainer", "service")
_IMPORT = re.compile(rf"^from streamsvm\.((?:{'|'.join(_LAYERS)})[\w.]*) import".encode(), re.MULTILINE)
_COMPILERS = ("numba", "llvmlite")


@cache
def stamp() -> str:
    """A mark of the sources of this tree's kernels, and of what compiles them."""
    return stamp_of(TREE)


def stamp_of(tree: Path) -> str:
    """Another one if any module that has kernels, or one that such a module takes something from, has changed.

    numba compiles what a kernel calls, and the constants that it uses, into it, and looks at its own file alone.
    """
    found = hashlib.blake2b(digest_size=16)
    for source, text in sorted(_with_imported(tree, kernel_modules(tree)).items()):
        found.update(str(source.relative_to(tree)).encode() + b"\0" + text + b"\0")
    for name in _COMPILERS:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            version = Path(spec.origin).with_name("_version.py")
            found.update(version.read_bytes() if version.exists() else b"")
    return found.hexdigest()


def kernel_modules(tree: Path) -> set[Path]:
    """The paths of modules that have kernels."""
    named = {path for layer in _LAYERS for path in (tree / layer).rglob("*_kernel.py")}
    return {*named, *(tree / "trainer" / "kernels").glob("*.py"), tree / "storage" / "rows" / "csr.py"}


def _with_imported(tree: Path, modules: set[Path]) -> dict[Path, bytes]:
    """The texts of these, and of all of ours that they import, and those, too."""
    found: dict[Path, bytes] = {}
    while modules:
        texts = {path: path.read_bytes() for path in modules}
        found |= texts
        names = {name for text in texts.values() for name in _IMPORT.findall(text)}
        places = {tree.joinpath(*name.decode().split(".")) for name in names}
        candidates = {path for place in places for path in (place.with_suffix(".py"), place / "__init__.py")}
        modules = {path for path in candidates - found.keys() if path.exists()}
    return found
