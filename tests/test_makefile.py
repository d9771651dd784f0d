"""What the Makefile's targets install: to run, the packages for that and no more; each target in the same .venv."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not available")


def steps(target: str, folder: Path) -> str:
    """What make would do in a fresh clone."""
    for name in ("Makefile", "pyproject.toml", "setup.py"):
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
    assert ".venv/typed/streamsvm\n" in said  # what editors and type checkers follow


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


def test_mlflow_has_an_environment_of_its_own(tmp_path):
    said = steps("test-mlflow", tmp_path)
    assert said.count("-m venv .venv-mlflow") == said.count("-m venv") == 1
    assert "--editable . --group mlflow" in said and "--group test" not in said


def test_what_is_there_stays(tmp_path):
    steps("demo", tmp_path)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".installed").touch()
    said = dry_run(tmp_path, "demo", "SIZE=3MB")
    assert said.splitlines() == [".venv/bin/streamsvm demo --size '3MB'"]


@pytest.mark.parametrize("version", ["3.11", "3.14"])
def test_each_python_has_an_environment_of_its_own(version, tmp_path):
    steps("setup", tmp_path)
    (tmp_path / "bin").mkdir()
    python = tmp_path / f"bin/python{version}"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    said = dry_run(tmp_path, f"test-{version}", f"PATH={python.parent}:{os.environ['PATH']}")
    assert f"python{version} -m venv .venv-{version}\n" in said
    assert f".venv-{version}/bin/python -m pytest" in said


def test_a_python_that_is_missing_is_named(tmp_path):
    steps("setup", tmp_path)
    (tmp_path / "python3.14").write_text("#!/bin/sh\nexit 127\n")
    (tmp_path / "python3.14").chmod(0o755)
    command = ["make", "test-3.14", f"PATH={tmp_path}:{os.environ['PATH']}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "there is no python3.14" in done.stdout
    assert not (tmp_path / ".venv-3.14").exists()


def test_the_targets_are_those_of_the_classifiers():
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    (line,) = (line for line in (ROOT / "Makefile").read_text().splitlines() if line.endswith(": test-%:"))
    versions = {target.removeprefix("test-") for target in line.partition(":")[0].split()}
    prefix = "Programming Language :: Python :: "
    assert versions == {each.removeprefix(prefix) for each in project["classifiers"] if each.startswith(prefix)}
    assert project["requires-python"] == ">=3.11"


def test_tests_of_mlflow_need_nothing_that_their_group_lacks():
    """Their environment is none of the one that all other tests have."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    others = {re.split(r"[\[><]", name)[0] for name in groups["test"]} - {
        re.split("[><]", name)[0] for name in groups["mlflow"]
    }
    mlflows = {"pandas", "pydantic"}
    blocked = {"boto3", "botocore", "s3fs", *(name.replace("-", "_") for name in others)} - mlflows
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({sorted(blocked)}))\n"
        "import tests.conftest, tests.python.test_follow_examples"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_other_processors_are_those_that_numba_and_blas_are_told(tmp_path):
    steps("setup", tmp_path)
    said = dry_run(tmp_path, "test-processors", "PROCESSOR=Haswell generic", "ROOMS=tests/trainer")
    told = [line.split()[1] for line in said.splitlines() if line.startswith("export")]
    assert told == ["OPENBLAS_CORETYPE=Haswell", "NUMBA_CPU_NAME=generic"]
    assert said.count("-m tests.kernels && .venv/bin/python -m pytest") == said.count("tests/trainer\n") == 2


ROOMS = ["trainer", "reader", "contracts", "python"]


@pytest.fixture
def repository(tmp_path):
    """A repository with two commits and a `make` that says how it has been called; `commit` changes files."""

    def git(*words):
        subprocess.check_call(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path)

    def commit(*files):
        for name in files:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(f"{len(name)} {os.urandom(4).hex()}")
        git("add", "--all")
        git("commit", "--quiet", "--message", "files")

    def said(folder=tmp_path):
        environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
        return subprocess.check_output([folder / ".ci/processors"], text=True, env=environment)

    git("init", "--quiet", "--initial-branch=main")
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "make").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "bin" / "make").chmod(0o755)
    commit("trainer/a", "reader/a", "storage/a", "api/python/a", *(f"tests/{room}/a" for room in ROOMS))
    commit("README.md")
    return SimpleNamespace(git=git, commit=commit, said=said, path=tmp_path)


@pytest.mark.parametrize(
    ("changed", "rooms"),
    [
        (["README.md", "api/app"], []),
        (["trainer/a"], ["trainer", "contracts"]),
        (["tests/trainer/b", "api/python/a"], ["trainer", "python"]),
        (["storage/a"], ["contracts"]),
        (["reader/a"], ["reader"]),
    ],
)
def test_integration_tests_what_has_changed_as_on_another_processor(changed, rooms, repository):
    repository.commit(*changed)
    said = repository.said()
    assert said == repository.said()
    if not rooms:
        assert said == "other processors: nothing that computes has changed\n"
        return
    processor = re.search(r"test-processors PROCESSOR=(\w+) ", said)[1]
    assert processor in {"Haswell", "Prescott", "generic"}
    assert said.endswith(f"ROOMS={' '.join(f'tests/{room}' for room in rooms)}\n")


def test_integration_looks_at_all_commits_of_a_branch(repository):
    repository.git("checkout", "--quiet", "-b", "branch")
    repository.commit("reader/a")
    repository.commit("README.md")
    assert repository.said().endswith("ROOMS=tests/reader\n")


def test_integration_takes_all_for_changed_in_a_clone_without_history(repository, tmp_path_factory):
    clone = tmp_path_factory.mktemp("clone") / "clone"
    repository.git("clone", "--quiet", "--depth=1", f"file://{repository.path}", str(clone))
    repository.git("-C", str(clone), "remote", "remove", "origin")
    assert repository.said(clone).endswith(f"ROOMS={' '.join(f'tests/{room}' for room in ROOMS)}\n")
