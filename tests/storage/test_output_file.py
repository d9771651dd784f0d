"""A file that a user asked for is whole, or not there."""

import os
from threading import Thread

import pytest

from streamsvm.storage.files.output_file import whole_file


@pytest.mark.parametrize("before", [None, b"before"])
def test_a_fault_leaves_what_was_there(tmp_path, before):
    path = tmp_path / "labels.txt"
    if before is not None:
        path.write_bytes(before)
    with pytest.raises(ValueError, match="line 3"), whole_file(path) as file:
        file.write(b"1\n2\n")
        raise ValueError("line 3")
    assert [each.name for each in tmp_path.iterdir()] == ([] if before is None else ["labels.txt"])
    assert before is None or path.read_bytes() == before


def test_what_is_whole_takes_the_place_also_of_what_a_link_names(tmp_path):
    path, link = tmp_path / "labels.txt", tmp_path / "link"
    path.write_bytes(b"before")
    link.symlink_to(path)
    with whole_file(link) as file:
        file.write(b"after")
        assert path.read_bytes() == b"before"
    assert link.is_symlink() and path.read_bytes() == b"after" and len(list(tmp_path.iterdir())) == 2


def test_a_pipe_is_written_to_as_it_is(tmp_path):
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    with whole_file(pipe) as file:
        file.write(b"1\n")
    reader.join()
    assert found == [b"1\n"] and pipe.is_fifo()


def test_a_directory_is_no_file(tmp_path):
    with pytest.raises(IsADirectoryError), whole_file(tmp_path):
        pass
