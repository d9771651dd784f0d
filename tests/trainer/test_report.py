"""A line of the trainer is written whole, or not without an error."""

import errno
import json
import os

import pytest

from streamsvm.trainer.report import write_line

TOLD = {"pass": 3, "lanes": [{"gap": k / 7} for k in range(2000)]}


def test_a_line_is_written_whole_however_little_is_taken_at_once(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:8192]))
    with (tmp_path / "history").open("wb") as file:
        write_line(TOLD, file.fileno())
        write_line({"pass": 4}, file.fileno())
    lines = (tmp_path / "history").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [TOLD, {"pass": 4}]


def test_what_is_not_taken_is_an_error():
    with open("/dev/full", "wb", buffering=0) as file, pytest.raises(OSError) as caught:  # noqa: PTH123
        write_line(TOLD, file.fileno())
    assert caught.value.errno == errno.ENOSPC
