"""Answers have a part of the disk, a client a part of that, and what is closed is given back."""

import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.room import Room

FREE = 4_000_000


def code_of(write) -> str:
    with pytest.raises(ServiceError) as caught:
        write()
    return caught.value.code


@pytest.fixture
def room(tmp_path):
    """On a disk of four megabytes, a quarter of which is for answers."""

    def free_bytes(_):
        return FREE - room.in_use

    room = Room(tmp_path, 1 << 40, free_bytes)
    return room


def test_one_client_has_three_quarters_and_all_no_more_than_there_is(room):
    one, other = room.file("a"), room.file("b")
    one.write(bytes(700_000))
    assert code_of(lambda: one.write(bytes(100_000))) == "out_of_space"
    assert code_of(lambda: room.file("a").write(bytes(100_000))) == "out_of_space"
    other.write(bytes(250_000))
    assert code_of(lambda: room.file("c").write(bytes(100_000))) == "out_of_space"
    one.close()
    one.close()
    assert room.in_use == 250_000
    other.write(bytes(450_000))
    other.seek(0)
    assert len(other.read(1 << 20)) == 700_000
    other.close()
    assert room.in_use == 0


def test_the_setting_bounds_it_on_a_large_disk(tmp_path):
    room = Room(tmp_path, 1000, lambda _: 1 << 40)
    with room.file("a") as file:
        file.writelines([bytes(100)] * 7)
        assert code_of(lambda: file.write(bytes(51))) == "answer_too_large"


def test_a_file_on_disk_has_no_name(room, tmp_path):
    with room.file("a") as file:
        file.write(bytes(200_000))
        assert file.fileno() > 0 and not list(tmp_path.iterdir())


def test_nothing_is_taken_after_the_end(room):
    file = room.file("a")
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.write(b"late")
    assert room.in_use == 0
