"""Published files are whole; a write that fails changes nothing; documents that were damaged are told."""

import os
from pathlib import Path
from threading import Thread

import pytest

from streamsvm.storage.errors import CorruptData, UnknownVersion
from streamsvm.storage.files.durable import pack, publish, unpack, whole_file, write_file
from tests.storage.damage import bit_flips, scrambled, truncations


def failing():
    yield b"half of"
    raise RuntimeError("no more")


def write_whole(path, chunks):
    with whole_file(path) as file:
        file.writelines(chunks)


@pytest.mark.parametrize("write", [write_file, write_whole])
@pytest.mark.parametrize("before", [None, b"old"])
def test_a_failing_writer_leaves_the_old_file(tmp_path, write, before):
    if before is not None:
        (tmp_path / "f").write_bytes(before)
    with pytest.raises(RuntimeError, match="no more"):
        write(tmp_path / "f", failing())
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert files == ({} if before is None else {"f": before})


def test_file_is_replaced_whole(tmp_path):
    path = tmp_path / ("f" * 255)  # as long as a name can be
    write_file(path, [b"a long first version"])
    write_file(path, [b"new", b"er"])
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {path.name: b"newer"}


def test_two_processes_can_write_one_file(tmp_path):
    """Processes of two containers on one volume may have the same id."""

    def chunks():
        yield b"half of "
        write_file(tmp_path / "f", [b"the other's"])
        yield b"it"

    write_file(tmp_path / "f", chunks())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"f": b"half of it"}


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_failing_disk_leaves_the_old_file(tmp_path, monkeypatch, call):
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


def test_a_whole_file_replaces_the_target_of_a_link(tmp_path):
    path, link = tmp_path / "labels.txt", tmp_path / "link"
    path.write_bytes(b"before")
    link.symlink_to(path)
    with whole_file(link) as file:
        file.write(b"after")
        assert path.read_bytes() == b"before"
    assert link.is_symlink() and path.read_bytes() == b"after" and len(list(tmp_path.iterdir())) == 2


def test_a_pipe_is_written_in_place(tmp_path):
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    with whole_file(pipe) as file:
        file.write(b"1\n")
    reader.join()
    assert received == [b"1\n"] and pipe.is_fifo()


def test_a_directory_cannot_be_written(tmp_path):
    with pytest.raises(IsADirectoryError), whole_file(tmp_path):
        pass


@pytest.mark.parametrize("copies", [truncations, bit_flips, lambda data: scrambled(data, 1000)])
def test_a_damaged_document_is_noticed(copies):
    content = {"uid": "a" * 8, "labels": {"0.1": 3, "\u00e9": 1}, "blocks": [[1, 2.5, None]]}
    for damaged in copies(pack(content, 5)):
        try:
            found = unpack(damaged, 6, "document", "", 5)
        except (CorruptData, UnknownVersion):
            continue
        # A change of white space does not change the content.
        assert found == content


@pytest.mark.parametrize(
    "text", [b"", b"null", b"3", b"[]", b"{}", b'{"version": 1}', b'{"version": 1, "checksum": 0}']
)
def test_other_json_is_no_document(text):
    with pytest.raises(CorruptData):
        unpack(text, 1, "document", "")


def test_versions_beyond_those_that_are_read_are_told():
    for version in (4, 7):
        with pytest.raises(UnknownVersion, match=f"version {version}"):
            unpack(pack({}, version), 6, "document", "", 5)
