"""The examples run unchanged, and their statements about results are true."""

import runpy
from pathlib import Path

import matplotlib
import numpy as np
import pytest

import streamsvm
from tests.end_to_end.service import Service, running
from tests.python import test_follow_examples

FOLDER = Path(streamsvm.__file__).with_name("examples")
README = Path(streamsvm.__file__).with_name("README.md").read_text()
NAMES = {path.stem for path in FOLDER.glob("*.py")}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs an example, which may write only here; returns what its names stand for."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    matplotlib.use("Agg")
    return lambda name: runpy.run_path(str(FOLDER / f"{name}.py"))


@pytest.fixture
def service(tmp_path, monkeypatch):
    with running(Service(tmp_path / "service")) as service:
        monkeypatch.setenv("STREAMSVM_URL", service.url)
        yield service


def test_text_classification(run):
    found = run("text_classification")
    assert found["model"].converged_
    assert 0.87 < found["accuracy"] < 0.94
    assert found["sure"] > 0.93 > 0.85 > found["unsure"]
    assert [found["model"].classes_[row.argmax()] for row in found["answers"]] == ["sklearn", "scipy"]


def test_table_with_categories(run):
    found = run("table_with_categories")
    assert found["accuracy"] > 0.85 > 0.65 > found["commonest"]
    assert found["accuracy_streamed"] == pytest.approx(found["accuracy"], abs=0.005)
    assert found["accuracy_from_file"] == pytest.approx(found["accuracy"], abs=0.005)
    size = found["weights"].abs()
    assert size.filter(like="plan_free").item() > 1 > 0.2 > size.filter(like="day").max()


def test_serving(run, service):
    found = run("serving")
    assert found["job"].state == "succeeded"
    assert found["accuracy"] > 0.93
    np.testing.assert_allclose(found["probability"].sum(axis=1), 1)
    np.testing.assert_array_equal(found["labels_of_sparse"], found["labels"])
    np.testing.assert_array_equal(found["labels_here"], found["labels"])
    assert [row["label"] for row in found["rows"]] == found["labels"].tolist()


def test_each_is_run_here_and_named_on_the_page():
    assert {name.removeprefix("test_") for name in [*globals(), *vars(test_follow_examples)]} >= NAMES
    assert {name for name in NAMES if f"(examples/{name}.py)" not in README} == set()
    assert len(NAMES) == 5


@pytest.mark.parametrize("name", sorted(NAMES))
def test_they_are_notebooks(name):
    """Each cell begins with a comment."""
    docstring, *cells = (FOLDER / f"{name}.py").read_text().split("\n# %%\n")
    assert docstring.startswith('"""')
    assert len(cells) >= 4
    assert all(cell.startswith("# ") for cell in cells)
