"""Compiled kernels on disk are used until the source of any kernel changes: tested in a copy of the tree."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = {
    "constant.py": "STEP = 1\n",
    "inner_kernel.py": "from streamsvm.storage.machine.compiled import njit\n"
    "from streamsvm.storage.constant import STEP\n\n\n"
    "@njit(cache=True)\ndef inner(x):\n    return x + STEP\n",
    "outer_kernel.py": "from streamsvm.storage.machine.compiled import njit\n"
    "from streamsvm.storage.inner_kernel import inner\n\n\n"
    "@njit(cache=True)\ndef outer(x):\n    return 10 * inner(x)\n",
}
PROGRAM = (
    "from streamsvm.storage.outer_kernel import outer; result = outer(1); "
    "print(result, sum(outer.stats.cache_hits.values()), sum(outer.stats.cache_misses.values()))"
)


class Tree:
    """A copy of the modules that kernels need, with two more kernels, one of which calls the other."""

    before = ()  # words of the command before Python

    def __init__(self, directory):
        self.directory = directory
        for name in (
            "machine/__init__.py",
            "machine/child.py",
            "machine/compiled.py",
            "machine/compiling.py",
            "machine/resources.py",
            "rows/csr.py",
        ):
            (self.storage / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / "storage" / name, self.storage / name)
        shutil.copy(ROOT / "storage" / "__init__.py", self.storage)
        (self.storage.parent / "__init__.py").touch()
        for name, text in MODULES.items():
            (self.storage / name).write_text(text)

    @property
    def storage(self):
        return self.directory / "streamsvm" / "storage"

    def run(self, program=PROGRAM, **environment):
        """Call a kernel in a new process: (result, whether it used the cache on disk, whether it compiled)."""
        command = [*self.before, sys.executable, "-c", program]
        environment = {**os.environ, **environment}
        done = subprocess.run(command, cwd=self.directory, env=environment, capture_output=True, check=True)
        return tuple(map(int, done.stdout.split()))

    def change(self, name, before, after):
        path = self.storage / name
        path.write_text(path.read_text().replace(before, after))


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_change_of_any_source_compiles_all_kernels_anew(tmp_path, is_elsewhere):
    tree = Tree(tmp_path / "tree")
    where = {"NUMBA_CACHE_DIR": str(tmp_path / "kept")} if is_elsewhere else {}
    assert tree.run(**where) == (20, 0, 1)
    tree.change("inner_kernel.py", "x + STEP", "x + STEP + 1")
    assert tree.run(**where) == (30, 0, 1)
    tree.change("constant.py", "STEP = 1", "STEP = 2")
    assert tree.run(**where) == (40, 0, 1)
    for path in tree.storage.glob("*.py"):
        os.utime(path, (0, 0))  # installed once more
    (tree.storage / "other.py").write_text("of no kernel")
    assert tree.run(**where) == (40, 1, 0)


def test_another_tree_with_the_same_sources_uses_the_cache(tmp_path):
    """A container uses the kernels in its image."""
    tree = Tree(tmp_path / "built" / "tree")
    assert tree.run() == (20, 0, 1)
    (tmp_path / "built").rename(tmp_path / "moved")
    tree.directory = tmp_path / "moved" / "tree"
    assert tree.run() == (20, 1, 0)


@pytest.mark.skipif(os.getuid() == 0 and not shutil.which("setpriv"), reason="root may write everywhere")
def test_an_installation_that_cannot_be_written_keeps_kernels_in_the_temporary_directory(tmp_path):
    tree, kept = Tree(tmp_path / "tree"), tmp_path / "kept"
    kept.mkdir()
    where = {"HOME": str(tree.directory), "TMPDIR": str(kept), "PYTHONDONTWRITEBYTECODE": "1"}
    tree.before = ["setpriv", "--bounding-set=-dac_override"] if os.getuid() == 0 else []
    folders = [tree.directory, *(each for each in tree.directory.rglob("*") if each.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    assert tree.run(**where) == (20, 0, 1) and tree.run(**where) == (20, 1, 0)
    for folder in folders:
        folder.chmod(0o755)
    (made,) = kept.iterdir()
    assert made.stat().st_mode & 0o777 == 0o700


def test_kernels_of_classes_that_have_moved_are_compiled_anew(tmp_path):
    tree = Tree(tmp_path / "tree")
    (tree.storage / "pair.py").write_text("from typing import NamedTuple\n\n\nclass Pair(NamedTuple):\n    x: int\n")
    tree.change("outer_kernel.py", "import njit", "import njit\nfrom streamsvm.storage.pair import Pair")
    tree.change("outer_kernel.py", "inner(x)", "inner(x.x)")
    program = PROGRAM.replace("import outer;", "import Pair, outer;").replace("outer(1)", "outer(Pair(1))")
    assert tree.run(program) == (20, 0, 1)
    (tree.storage / "pair.py").rename(tree.storage / "moved.py")
    tree.change("outer_kernel.py", "storage.pair", "storage.moved")
    assert tree.run(program) == (20, 0, 1)
    assert tree.run(program) == (20, 1, 0)
