"""The README's commands, typed as they stand."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import zstandard

from tests.end_to_end.service import PATIENCE_SECONDS, STREAMSVM

README = Path(__file__).parents[2] / "README.md"

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not available")


def commands(heading: str) -> str:
    """The first shell block below a heading."""
    section = README.read_text().split(f"## {heading}\n")[1]
    return re.search(r"```sh\n(.*?)```", section, re.DOTALL)[1]


@pytest.fixture
def folder(tmp_path, text):
    """Where the user stands."""
    (tmp_path / "train.svm.zst").write_bytes(zstandard.compress(text))
    return tmp_path


def run(script: str, folder: Path) -> str:
    path = f"{STREAMSVM.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_session(service, folder):
    session = commands("A session").replace("http://localhost:8000", service.url)
    assert service.url in session
    answers = run(session, folder)
    assert '"unknown_features":' in answers
    assert "problem" not in answers
    assert (folder / "rcv1.model").read_text().startswith("solver_type L2R_L1LOSS_SVC_DUAL\n")
    assert (folder / "rcv1.npz").stat().st_size > 0


def test_without_a_server(folder, problem):
    run(commands("Without a server"), folder)
    assert (folder / "rcv1.model").exists()
    assert len((folder / "labels.txt").read_text().splitlines()) == problem[0].shape[0]


def test_model_elsewhere(folder, problem, monkeypatch):
    answers = run("streamsvm train train.svm.zst -o rcv1.npz; streamsvm predict rcv1.npz train.svm.zst", folder)
    section = README.read_text().split("## Models elsewhere\n")[1]
    program = re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]
    monkeypatch.chdir(folder)
    found: dict = {"rows": problem[0]}
    exec(program, found)
    assert found["labels"].tolist() == [float(label) for label in answers.split()]
