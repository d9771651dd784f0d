"""A hash, the stamp, of all kernels' sources: compiled kernels on disk are valid until it changes. Quick to import."""

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
