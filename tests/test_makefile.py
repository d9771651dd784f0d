"""What the Makefile's targets install: to run, the packages for that and no more; each target in the same .venv."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not available")


def steps(target: str, folder: Path) -> str:
    """What make would do in a fresh clone."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return dry_run(folder, target)


def dry_run(folder: Path, *words: str) -> str:
    """As typed in a shell, also where make runs these tests."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.check_output(["make", "--dry-run", *words], cwd=folder, text=True, env=environment)


@pytest.mark.parametrize("target", ["setup", "demo", "serve"])
def test_what_runs_it_needs_no_tests(target, tmp_path):
    said = steps(target, tmp_path)
    assert said.count("pip install") == 1
    assert "--editable ." in said and "[" not in said


@pytest.mark.parametrize("target", ["test", "check", "test-slow"])
def test_tests_add_their_own(target, tmp_path):
    said = steps(target, tmp_path)
    assert said.count("-m venv") == 1
    assert said.index("--editable .\n") < said.index("--group test")
    assert "--group bench" not in said


@pytest.mark.parametrize("target", ["bench", "papers"])
def test_benches_add_theirs(target, tmp_path):
    said = steps(target, tmp_path)
    assert said.index("--group test") < said.index("--group bench")


def test_what_is_there_stays(tmp_path):
    steps("demo", tmp_path)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".installed").touch()
    said = dry_run(tmp_path, "demo", "DATA=my file")
    assert said.splitlines() == [".venv/bin/streamsvm demo --data 'my file' "]
