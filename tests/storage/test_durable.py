"""What is published is whole; what fails leaves nothing."""

import os
from pathlib import Path

import pytest

from streamsvm.storage.files.durable import publish, write_file


def failing():
    yield b"half of"
    raise RuntimeError("no more")


@pytest.mark.parametrize("before", [None, b"old"])
def test_failing_writer_leaves_what_was_there(tmp_path, before):
    if before is not None:
        (tmp_path / "f").write_bytes(before)
    with pytest.raises(RuntimeError, match="no more"):
        write_file(tmp_path / "f", failing())
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert found == ({} if before is None else {"f": before})


def test_file_is_replaced_whole(tmp_path):
    write_file(tmp_path / "f", [b"a long first version"])
    write_file(tmp_path / "f", [b"new", b"er"])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"f": b"newer"}


def test_two_who_write_one_file_do_not_meet(tmp_path):
    """In two containers on one volume they may have the same process id."""

    def chunks():
        yield b"half of "
        write_file(tmp_path / "f", [b"the other's"])
        yield b"it"

    write_file(tmp_path / "f", chunks())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"f": b"half of it"}


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_failing_disk_leaves_what_was_there(tmp_path, monkeypatch, call):
    (tmp_path / "f").write_bytes(b"old")

    def fail(*_arguments):
        raise OSError("disk")

    monkeypatch.setattr(*((os, "fsync") if call == "fsync" else (Path, "rename")), fail)
    with pytest.raises(OSError, match="disk"):
        write_file(tmp_path / "f", [b"new"])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"f": b"old"}


def test_content_is_synced_before_the_name_and_the_name_before_return(tmp_path, monkeypatch):
    events = []
    real_sync, real_rename = os.fsync, Path.rename

    def sync(descriptor):
        events.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real_sync(descriptor)

    def rename(self, target):
        events.append("rename")
        return real_rename(self, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "rename", rename)
    staged = tmp_path / "staged"
    (staged / "inner").mkdir(parents=True)
    for path in (staged / "a", staged / "inner" / "b"):
        path.write_bytes(b"x")
    publish(staged, tmp_path / "final")
    assert set(events[: events.index("rename")]) == {"a", "b", "inner", "staged"}
    assert events[events.index("rename") + 1 :] == [tmp_path.name]
    assert (tmp_path / "final" / "inner" / "b").read_bytes() == b"x"
    assert not staged.exists()


def test_directory_is_not_published_over_another(tmp_path):
    for name in ("staged", "final"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_bytes(b"x")
    with pytest.raises(OSError):
        publish(tmp_path / "staged", tmp_path / "final")
    assert [path.name for path in (tmp_path / "final").iterdir()] == ["final"]
