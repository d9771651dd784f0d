"""What a wheel and an sdist install: `streamsvm` alone, which works beside a user's folders of the same names."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("api", "service", "reader", "trainer", "storage")
PROGRAM = """
import numpy as np
import api, reader, service, storage, tests, trainer  # the user's own
from streamsvm import StreamSVC

X = np.arange(-19.0, 21.0).reshape(20, 2)
assert StreamSVC(C=1.0).fit(X, X[:, 0] > 0).score(X, X[:, 0] > 0) == 1.0
"""
TYPED = """
import numpy as np
from streamsvm import StreamSVC

model = StreamSVC(C=1.0).fit(np.zeros((3, 2)), np.array([0, 1, 1]))
{}: {} = model.n_features_in_
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the wheel and the sdist; they are made of a copy, for setuptools leaves files where it builds."""
    folder = tmp_path_factory.mktemp("built")
    wanted = (*ROOMS, "README.md", "LICENSE", "pyproject.toml", "setup.py")
    listed = subprocess.check_output(["git", "-C", ROOT, "ls-files", "-z", *wanted], text=True)
    for name in filter(None, listed.split("\0")):
        copy = folder / "tree" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((ROOT / name).read_bytes())
    build = "import setuptools.build_meta as build; build.build_wheel('..'); build.build_sdist('..')"
    subprocess.run([sys.executable, "-c", build], cwd=folder / "tree", capture_output=True, check=True)
    return folder


def installed(folder: Path, archive: Path) -> Path:
    """The site-packages of an environment with what is in the archive; our dependencies lie on its path."""
    venv.create(folder)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python"]
    options = ("--quiet", "--no-compile", "--no-deps", "--no-index", "--no-build-isolation")
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "ours.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    subprocess.run([*pip, "install", *options, archive], capture_output=True, check=True)
    return packages


@pytest.fixture(scope="module")
def packages(built, tmp_path_factory):
    """Of the wheel."""
    return installed(tmp_path_factory.mktemp("environment"), *built.glob("*.whl"))


def test_nothing_else_is_installed(packages):
    found = {path.name for path in packages.iterdir() if not path.name.endswith(".dist-info")}
    assert found == {"streamsvm", "ours.pth"}
    assert {path.name for path in (packages / "streamsvm").iterdir()} >= {*ROOMS, "py.typed"}
    assert (packages / "streamsvm" / "api" / "answers.txt").exists()
    assert not (packages / "streamsvm" / "api" / "python").exists()


def test_the_sdist_installs_what_the_wheel_does(packages, built, tmp_path):
    def files(folder):
        return {path.relative_to(folder) for path in (folder / "streamsvm").rglob("*") if path.is_file()}

    assert files(installed(tmp_path, *built.glob("*.tar.gz"))) == {
        path for path in files(packages) if "__pycache__" not in path.parts
    }


def test_it_trains_beside_folders_of_the_same_names(packages, tmp_path):
    for name in (*ROOMS, "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}  # a minute of compiling would test nothing more
    python = packages.parents[2] / "bin" / "python"
    done = subprocess.run([python, "program.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_types_are_for_users(packages, tmp_path):
    (tmp_path / "right.py").write_text(TYPED.format("n", "int"))
    (tmp_path / "wrong.py").write_text(TYPED.format("n", "str"))
    python = packages.parents[2] / "bin" / "python"
    command = [sys.executable, "-m", "mypy", "--python-executable", python, "right.py", "wrong.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.count("error:") == 1 and done.stdout.startswith("wrong.py:6: error: Incompatible types"), done
