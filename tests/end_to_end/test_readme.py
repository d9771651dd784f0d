"""The README's commands, typed as they stand."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import zstandard

from service.models.exports import MODEL_FORMATS
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


def test_from_the_command_line(service, folder, monkeypatch):
    monkeypatch.setenv("STREAMSVM_URL", service.url)
    session = commands("From the command line").replace("http://localhost:8000", service.url).replace("rcv1", "typed")
    answers = run(session, folder)
    assert (folder / "typed.model").read_text().startswith("solver_type")
    assert "typed: 3000 rows" in answers and "succeeded" in answers and "mdl_" in answers


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory, text):
    """A folder with a model in every format, the rows as test.svm, and the labels that StreamSVM predicts for them."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "test.svm").write_bytes(text)
    run("streamsvm train test.svm -o rcv1.npz", folder)
    with (folder / "rcv1.npz").open("rb") as file:
        model = MODEL_FORMATS["npz"].read(file)
    for name in ("liblinear", "onnx"):
        kind = MODEL_FORMATS[name]
        (folder / f"rcv1{kind.suffix}").write_bytes(b"".join(kind.write(model)))
    (folder / "labels.txt").write_text(run("streamsvm predict rcv1.npz test.svm", folder))
    return folder


@pytest.mark.parametrize("library", ["liblinear.liblinearutil", "np.load", "onnxruntime", "sklearn"])
def test_models_elsewhere(model_folder, problem, monkeypatch, library):
    section = README.read_text().split("## Models elsewhere\n")[1].split("\n## ")[0]
    programs = [found for found in re.findall(r"```python\n(.*?)```", section, re.DOTALL) if library in found]
    monkeypatch.chdir(model_folder)
    expected = [float(label) for label in (model_folder / "labels.txt").read_text().split()]
    w = np.load("rcv1.npz")
    for program in programs:
        found: dict = {"rows": problem[0]}
        exec(program, found)
        assert list(found["labels"]) == expected
        decision = np.ravel(found["decision"])
        # LIBLINEAR reads values as float64, StreamSVM as float32.
        np.testing.assert_allclose(decision, problem[0] @ w["w"] + w["intercept"], rtol=1e-7, atol=1e-7)
    assert programs
