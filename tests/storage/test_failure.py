"""How a process of a job ends is known to the one that started it, whatever the disk takes of its words."""

import errno
import os
import subprocess
import sys

import pytest

from streamsvm.storage.errors import CorruptData, DatasetCorrupt, OutOfSpace
from streamsvm.storage.run.failure import told

PROCESS = """
import sys
from pathlib import Path
from streamsvm.storage.errors import DatasetCorrupt
from streamsvm.storage.run.failure import telling

with telling(Path(sys.argv[1])):
    print("a report")
    raise {}
"""


def ended(run, error, output):
    """The exit code of a process that met an error and has this file for all that it says."""
    with open(output, "ab") as file:  # noqa: PTH123
        command = [sys.executable, "-c", PROCESS.format(error), run]
        # What it reports is still to be written when it meets the error.
        environment = {**os.environ, "PYTHONUNBUFFERED": ""}
        return subprocess.run(command, stdout=file, stderr=file, env=environment, check=False).returncode


@pytest.mark.parametrize("output", ["/dev/null", "/dev/full"])
@pytest.mark.parametrize("has_room", [True, False])
def test_a_full_disk_is_known_as_such_also_by_a_log_that_has_no_room(tmp_path, output, has_room):
    run = tmp_path if has_room else tmp_path / "missing"
    code = ended(run, f"OSError({errno.ENOSPC}, 'no room')", output)
    assert code == OutOfSpace.exit_code
    assert told(run, code)["code"] == OutOfSpace.code


def test_an_error_with_a_code_is_known_by_its_own_words(tmp_path):
    code = ended(tmp_path, "DatasetCorrupt('a fault', 3)", "/dev/full")
    assert code == DatasetCorrupt.exit_code
    assert told(tmp_path, code) == {
        "code": DatasetCorrupt.code, "message": "block 3: a fault", "hint": DatasetCorrupt("", 3).hint
    }  # fmt: skip


def test_another_error_is_told_by_nobody(tmp_path):
    assert CorruptData.exit_code is None
    code = ended(tmp_path, "ValueError", tmp_path / "log")
    assert (code, told(tmp_path, code)) == (1, None)
