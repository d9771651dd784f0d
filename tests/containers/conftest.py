"""An engine, the images of this tree and of the commit before, and projects; nothing of them stays."""

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.containers.engine import Engine
from tests.containers.project import Project
from tests.end_to_end.conftest import problem, text  # noqa: F401 - fixtures

ROOT = Path(__file__).resolve().parents[2]
# Not where temporary files are: that may be memory, and this is some gigabytes.
FOLDER = ROOT / ".containers"
BEFORE = os.environ.get("BEFORE") or "HEAD~1"


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """Ready to build; what a run that was killed has left goes first."""
    folder = FOLDER / "engine"
    engine = Engine(folder)
    try:
        engine.remove()
        engine.create()
        try:
            engine.import_base(FOLDER / "base.tar")
            engine.podman("run", "--rm", "--network", "none", engine.base, "true")
        except (subprocess.CalledProcessError, AssertionError) as error:
            pytest.skip(f"no containers: {getattr(error, 'stderr', None) or error}")
        yield engine
    finally:
        engine.remove()


@pytest.fixture(scope="session")
def image(engine: Engine) -> str:
    """Id of this tree's image."""
    return engine.build(ROOT)


@pytest.fixture(scope="session")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the commit before, or of BEFORE."""
    archive = subprocess.run(["git", "-C", ROOT, "archive", BEFORE], capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"no commit {BEFORE} here: {archive.stderr.decode().strip()}")
    tree = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(tree, filter="data")
    return tree


@pytest.fixture(scope="module")
def new_project(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Project]]:
    """Brings a project up as deploy/README.md says; one at a time, for they have one name."""
    made: list[Project] = []

    def make(tree: Path, **settings: str) -> Project:
        project = Project(engine, tree / "deploy", tmp_path_factory.mktemp("project") / "deploy")
        made.append(project)
        project.bring_up(ROOT / "deploy/README.md", **settings)
        return project

    yield make
    for project in made:
        project.close()
        shutil.rmtree(project.folder)
