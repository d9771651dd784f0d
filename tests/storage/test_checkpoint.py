"""A checkpoint is read as it was written or not at all."""

from itertools import islice

import numpy as np
import pytest

from streamsvm.storage.errors import CorruptData
from streamsvm.storage.run.checkpoint import (
    SLOTS,
    SURE_SLOTS,
    UNSURE_SLOT,
    newest_checkpoint,
    older_slot,
    read_checkpoint,
    write_checkpoint,
)
from tests.storage.damage import bit_flips, truncations

ABOUT = {"number": 3, "pass": 2, "bound": 0.1}


def arrays():
    return {"alpha": np.arange(10.0)[:, np.newaxis], "visited": np.arange(5, dtype=np.uint8)}


def test_round_trip(tmp_path):
    write_checkpoint(tmp_path / "checkpoint.0", ABOUT, arrays())
    found = read_checkpoint(tmp_path / "checkpoint.0")
    assert {**ABOUT, **found.about} == found.about
    for name, array in arrays().items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found.arrays()[name], array)


def test_arrays_of_one_task_of_earlier_versions_have_the_axis_of_tasks(tmp_path):
    write_checkpoint(tmp_path / "checkpoint.0", ABOUT, {"alpha": np.arange(3.0), "w": np.zeros((2, 4))})
    found = read_checkpoint(tmp_path / "checkpoint.0")
    assert (found["alpha"].tolist(), found["w"].shape) == ([[0.0], [1.0], [2.0]], (2, 4))


def test_every_flipped_bit_is_found(tmp_path):
    path = tmp_path / "checkpoint.0"
    write_checkpoint(path, ABOUT, arrays())
    data = path.read_bytes()
    undetected = 0
    for damaged in islice(bit_flips(data), 0, None, 3):
        path.write_bytes(damaged)
        try:
            found = read_checkpoint(path)
        except CorruptData:
            continue
        # A bit that means nothing to anybody, such as a time of day.
        undetected += 1
        assert found.about["number"] == 3
        assert all(np.array_equal(found[name], array) for name, array in arrays().items())
    assert undetected < 4 * len(data)


def test_every_truncation_is_found(tmp_path):
    path = tmp_path / "checkpoint.0"
    write_checkpoint(path, ABOUT, arrays())
    for damaged in truncations(path.read_bytes()):
        path.write_bytes(damaged)
        with pytest.raises(CorruptData):
            read_checkpoint(path)


def test_the_newest_sound_one_counts(tmp_path):
    assert newest_checkpoint(tmp_path) is None
    for number, slot in enumerate(SLOTS):
        write_checkpoint(tmp_path / slot, {"number": number}, arrays())
    assert newest_checkpoint(tmp_path).about["number"] == 2
    (tmp_path / SLOTS[2]).write_bytes(b"PK")
    assert newest_checkpoint(tmp_path).about["number"] == 1


def test_the_older_of_two_is_written_next_whatever_lies_in_the_third(tmp_path):
    for number in range(1, 5):
        slot = older_slot(tmp_path)
        assert slot.name in SURE_SLOTS
        write_checkpoint(slot, {"number": number}, arrays())
        write_checkpoint(tmp_path / UNSURE_SLOT, {"number": 10}, arrays())
        assert {read_checkpoint(path).about["number"] for path in tmp_path.glob("*")} <= {number - 1, number, 10}
    (tmp_path / SURE_SLOTS[1]).write_bytes(b"PK")
    assert older_slot(tmp_path).name == SURE_SLOTS[1]


def test_a_failed_write_leaves_the_old_one(tmp_path):
    path = tmp_path / SLOTS[0]
    write_checkpoint(path, ABOUT, arrays())
    with pytest.raises(ValueError, match="Object arrays"):
        write_checkpoint(path, {"number": 4}, {"alpha": np.array([None])})
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert read_checkpoint(path).about["number"] == 3
