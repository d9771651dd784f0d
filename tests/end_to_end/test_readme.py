"""The commands and programs of the pages, run as they stand."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import zstandard

from streamsvm.reader.ingest.run import ingest
from streamsvm.service.cli import main
from streamsvm.service.models.exports import MODEL_FORMATS
from tests.end_to_end.service import PATIENCE_SECONDS, STREAMSVM
from tests.pages import ROOT, blocks, page, section
from tests.reference.libsvm import has_program

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not available")


def commands(folder: str, heading: str) -> str:
    """The first shell block below a heading of a folder's README."""
    return blocks(section(page(folder), heading), "sh")[0]


@pytest.fixture
def folder(tmp_path, text):
    """Where the user stands."""
    (tmp_path / "train.svm.zst").write_bytes(zstandard.compress(text))
    for name in ("train.svm", "test.svm"):
        (tmp_path / name).write_bytes(text)
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


@pytest.fixture
def programs():
    """The blocks of the first page: Python, the command line, curl, documents."""
    (program,), (typed, documents, requests) = blocks(page(), "python"), blocks(page(), "sh")
    return program, typed, requests, documents


def test_quick_start_in_python(folder, programs, monkeypatch):
    monkeypatch.chdir(folder)
    found: dict = {}
    exec(programs[0], found)
    assert found["model"].score(found["X"], found["y"]) > 0.9


def test_quick_start_on_the_command_line(folder, programs, problem):
    run(programs[1], folder)
    labels = np.loadtxt(folder / "labels.txt")
    assert np.mean(labels == problem[1]) > 0.75


def test_quick_start_with_documents(folder, programs):
    lines = ["good\ta film as fine as what a film can be\n", "bad\twhat we had to sit through was dull\n"]
    (folder / "reviews.txt").write_text("".join(lines * 20))
    answers = run(programs[3], folder)
    assert answers.splitlines()[-1] == "good" and "words for good\n" in answers and "film as\n" in answers


def test_quick_start_with_curl(service, folder, programs, problem):
    requests = programs[2].replace("http://localhost:8000", service.url)
    assert service.url in requests
    answers = run(requests, folder)
    assert "event: end\n" in answers
    predicted = json.loads(answers[answers.rindex('{"rows"') :])["predictions"]
    assert np.mean([row["label"] for row in predicted] == problem[1]) > 0.75


def test_the_first_page_has_no_block_that_nobody_runs(programs):
    assert len(re.findall(r"^```\w", page(), re.MULTILINE)) == len(programs)


def test_from_a_table_to_a_score(service, tmp_path, monkeypatch):
    """Every block of the page, in its order, in one folder."""
    text = (ROOT / "service" / "first-day.md").read_text()
    programs, scripts = blocks(text, "python"), blocks(text, "sh")
    assert len(re.findall(r"^```\w", text, re.MULTILINE)) == len(programs + scripts)
    monkeypatch.chdir(tmp_path)
    exec(programs[0], {})
    *typed, requests = scripts
    assert "(service/first-day.md)" in page()
    for script, words in zip(typed, ("C = 1: accuracy 0.", "+-", ", selected", "accuracy "), strict=True):
        said = run(f"exec 2>&1\n{script}", tmp_path)
        assert words in said and "error" not in said, said
    assert "a table of 5 columns without names, 2 of categories, labels in column 5" in said
    assert (tmp_path / "predicted.csv").read_text().startswith("label,decision_value\n")
    found: dict = {}
    exec(programs[1], found)
    assert found["model"].score("new.csv") > 0.8 and len(found["labels"]) == 500
    assert "http://localhost:8000" in requests
    answers = run(requests.replace("http://localhost:8000", service.url), tmp_path)
    assert '"score":{"metric":"accuracy"' in answers and '"judged":"accuracy ' in answers


def test_session(service, folder):
    session = commands("api", "A session").replace("http://localhost:8000", service.url)
    assert service.url in session
    answers = run(session, folder)
    assert '"unknown_features":' in answers
    assert "problem" not in answers
    assert (folder / "rcv1.model").read_text().startswith("solver_type L2R_L1LOSS_SVC_DUAL\n")
    assert (folder / "rcv1.npz").stat().st_size > 0


def test_without_a_server(folder, problem):
    run(commands("service", "Without a server"), folder)
    assert (folder / "rcv1.model").exists()
    assert len((folder / "labels.txt").read_text().splitlines()) == problem[0].shape[0]


def test_from_the_command_line(service, folder, monkeypatch):
    monkeypatch.setenv("STREAMSVM_URL", service.url)
    session = (
        commands("service", "From the command line")
        .replace("http://localhost:8000", service.url)
        .replace("rcv1", "typed")
    )
    answers = run(session, folder)
    assert (folder / "typed.model").read_text().startswith("solver_type")
    assert "typed: 3,000 rows" in answers and "succeeded" in answers and "mdl_" in answers


def test_npz_as_the_page_writes_it(tmp_path, problem, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (program,) = blocks(section(page("reader"), "Formats"), "python")
    exec(program, dict(zip("Xy", problem, strict=True)))
    made = ingest([(tmp_path / "train.npz").read_bytes()], tmp_path / "dataset")
    assert (made.n_rows, made.nnz) == (len(problem[1]), problem[0].nnz)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory, text):
    """A folder with a model in every format, and the rows as test.svm."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "test.svm").write_bytes(text)
    rows = folder / "test.svm"
    assert main(["train", str(rows), "-o", str(folder / "rcv1.npz")]) == 0
    with (folder / "rcv1.npz").open("rb") as file:
        model = MODEL_FORMATS["npz"].read(file)
    for name in ("liblinear", "onnx"):
        kind = MODEL_FORMATS[name]
        (folder / f"rcv1{kind.suffix}").write_bytes(b"".join(kind.write(model)))
    kernel = ["--solver", "bsca", "--budget", "50", "--max-passes", "3"]
    assert main(["train", str(rows), *kernel, "-o", str(folder / "kernel.npz")]) in (0, 4)
    kind = MODEL_FORMATS["libsvm"]
    with (folder / "kernel.npz").open("rb") as file:
        (folder / "kernel.model").write_bytes(b"".join(kind.write(MODEL_FORMATS["npz"].read(file))))
    return folder


def elsewhere(model: str) -> list[str]:
    """The programs that have a model of this name."""
    return [found for found in blocks(section(page("service"), "Models elsewhere"), "python") if f'"{model}.' in found]


@pytest.mark.parametrize("library", ["liblinear.liblinearutil", "np.load", "onnxruntime", "sklearn"])
def test_models_elsewhere(model_folder, problem, monkeypatch, library, run_here):
    programs = [found for found in elsewhere("rcv1") if library in found]
    monkeypatch.chdir(model_folder)
    expected = [float(label) for label in run_here("predict", "rcv1.npz", "test.svm").stdout.split()]
    w = np.load("rcv1.npz")
    for program in programs:
        found: dict = {"rows": problem[0]}
        exec(program, found)
        assert list(found["labels"]) == expected
        decision = np.ravel(found["decision"])
        # LIBLINEAR reads values as float64, StreamSVM as float32.
        np.testing.assert_allclose(decision, problem[0] @ w["w"] + w["intercept"], rtol=1e-7, atol=1e-7)
    assert programs


def test_kernel_machines_elsewhere(model_folder, problem, monkeypatch, run_here):
    monkeypatch.chdir(model_folder)
    said = run_here("predict", "kernel.npz", "test.svm", "--decision-values").stdout
    expected = np.array([line.split() for line in said.splitlines()], float)
    (program,) = elsewhere("kernel")
    found: dict = {"rows": problem[0].toarray().astype(float)}
    exec(program, found)
    np.testing.assert_allclose(found["decision"], expected[:, 1], rtol=1e-9, atol=1e-9)
    assert set(expected[:, 0]) == {1.0, -1.0}


@has_program
def test_svm_predict_says_the_same_of_every_row(model_folder, monkeypatch, run_here):
    assert "svm-predict test.svm kernel.model output" in section(page("service"), "Models elsewhere")
    run("svm-predict test.svm kernel.model output", model_folder)
    monkeypatch.chdir(model_folder)
    assert (model_folder / "output").read_text() == run_here("predict", "kernel.model", "test.svm").stdout
