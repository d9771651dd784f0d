"""A client that openapi-python-client makes of the OpenAPI document has types, and a session with it works."""

import subprocess
import sys
from pathlib import Path

import pytest

from streamsvm.api.document import DOCUMENT

pytest.importorskip("openapi_python_client", reason="openapi-python-client is not installed: make test installs it")

BIN = Path(sys.executable).parent
SESSION = Path(__file__).with_name("generated_session.py")
PACKAGE = "streamsvm_client"
# Types are asked of the program alone; the generator's own code has what it likes.
TYPES = f"[mypy]\nstrict = True\ndisallow_any_expr = True\n[mypy-{PACKAGE}.*]\nfollow_imports = silent\n"


def run(directory: Path, *command: object) -> str:
    """The output of a program that has to succeed."""
    ended = subprocess.run(
        [str(each) for each in command], cwd=directory, capture_output=True, text=True, timeout=180, check=False
    )
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-4000:]
    return ended.stdout


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """A directory with the generated package and the program that uses it."""
    directory = tmp_path_factory.mktemp("generated")
    (directory / "options.yml").write_text("post_hooks: []\n")  # nobody reads how it looks
    said = run(
        directory, BIN / "openapi-python-client", "generate", "--path", DOCUMENT, "--output-path", PACKAGE,
        "--meta", "none", "--config", "options.yml",
    )  # fmt: skip
    # Bodies of text are not for this generator; every route must be there.
    assert "will not be generated" not in said, said
    (directory / "session.py").write_bytes(SESSION.read_bytes())
    (directory / "mypy.ini").write_text(TYPES)
    return directory


def test_a_program_that_uses_it_has_types_and_no_any(generated):
    assert "Success" in run(generated, BIN / "mypy", "--config-file", "mypy.ini", "session.py")


def test_a_session_works(generated, new_service):
    service = new_service()
    made = service.processes.run("token", "new", "ada", "--scope", "admin", "--data-dir", service.data_dir)
    token = made.stdout.decode().split()[-1]
    service.start(f"Bearer {token}")  # one that runs already would know the token within a second
    assert run(generated, sys.executable, "session.py", service.url, token) == "as it should be\n"
