"""The state files are shared memory with names."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from streamsvm.storage.run.state import (
    CONTROL,
    create_state,
    open_control,
    open_state,
    pass_stamp,
    read_control,
    state_bytes,
)

ROOT = Path(__file__).resolve().parents[2]
ARRAYS = {
    "alpha": (np.float64, (7, 1)), "w": (np.float64, (3, 1)), "score": (np.float32, (7,)), "visited": (np.uint8, (7,))
}  # fmt: skip


def test_new_state_is_zero_and_of_the_right_shape(tmp_path):
    for name in (*ARRAYS, "control"):
        (tmp_path / name).write_bytes(b"\xff" * 1000)
    state = create_state(tmp_path, 7, 3)
    for name, (dtype, shape) in ARRAYS.items():
        array = getattr(state, name)
        assert (array.dtype, array.shape) == (dtype, shape)
        assert not array.any()
    assert not any(state.control.values().values())


def test_what_one_writes_the_other_sees(tmp_path):
    one = create_state(tmp_path, 7, 3)
    other = open_state(tmp_path, 7, 3)
    for name in ARRAYS:
        getattr(one, name)[1] = 5
        assert getattr(other, name)[1] == 5
        getattr(other, name)[2] = 6
        assert getattr(one, name)[2] == 6


def test_control_fields_are_apart(tmp_path):
    state = create_state(tmp_path, 7, 3)
    values = {name: k + (0.5 if dtype.kind == "f" else 0) for k, (name, dtype, _) in enumerate(CONTROL, 1)}
    for name, value in values.items():
        state.control[name] = value
    page = open_control(tmp_path)
    assert page.values() == values
    assert all(type(page[name]) is type(value) for name, value in values.items())
    assert (tmp_path / "control").stat().st_size == 8 * len(CONTROL)


def test_who_only_looks_at_a_control_page_sees_it_change_and_cannot_change_it(tmp_path):
    control = create_state(tmp_path, 7, 3).control
    seen = read_control(tmp_path)
    control["pass"] = 5
    assert seen["pass"] == 5
    with pytest.raises(TypeError):
        seen["pass"] = 6
    assert control["pass"] == 5


def test_control_takes_the_numbers_of_numpy(tmp_path):
    """Whatever counts rows comes from numpy sooner or later; what is read is a plain number, as JSON wants it."""
    control = create_state(tmp_path, 7, 3).control
    numbers = {"<i8": (np.int32(-5), np.int64(2**62), np.uint8(200), 2**63 - 1, -(2**63), True)}
    numbers["<f8"] = (np.float32(0.5), np.float64(0.1), np.int64(7), 7, -np.inf)
    for name, dtype, _ in CONTROL:
        for number in numbers[dtype.str]:
            control[name] = number
            assert control[name] == number
            assert type(control[name]) is (float if dtype.kind == "f" else int)
    control["updates"] += np.count_nonzero(np.ones(3))
    json.dumps(control.values())


def test_a_fraction_is_no_count(tmp_path):
    control = create_state(tmp_path, 7, 3).control
    control["updates"] = 3
    with pytest.raises(TypeError):
        control["updates"] = 3.5
    with pytest.raises(ValueError):
        control["updates"] = 2**63
    assert control["updates"] == 3


def test_another_process_reads_what_was_written_and_answers(tmp_path):
    """While both have the page mapped, as reader and trainer have."""
    control = create_state(tmp_path, 7, 3).control
    control["committed_step"], control["M_plus"] = 2**40 + 1, 0.1
    program = (
        "import sys; from pathlib import Path; from streamsvm.storage.run.state import open_control\n"
        "page = open_control(Path(sys.argv[1]))\n"
        "page['started_step'] = page['committed_step'] + 1; page['M_minus'] = -page['M_plus']"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, check=True)
    assert (control["started_step"], control["M_minus"]) == (2**40 + 2, -0.1)
    assert (control["committed_step"], control["M_plus"]) == (2**40 + 1, 0.1)


def test_unknown_control_field_is_refused(tmp_path):
    control = create_state(tmp_path, 7, 3).control
    with pytest.raises((KeyError, ValueError, IndexError)):
        control["no such field"]
    with pytest.raises((KeyError, ValueError, IndexError)):
        control["no such field"] = 1


def test_every_field_has_one_of_three_writers():
    assert {writer for _, _, writer in CONTROL} == {"reader", "trainer", "worker"}
    assert len({name for name, _, _ in CONTROL}) == len(CONTROL)


def test_size_is_as_announced(tmp_path):
    create_state(tmp_path, 7, 3)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == state_bytes(7, 3)


def test_data_without_a_feature_has_a_state(tmp_path):
    """Rows of a label only, numbered from 0, have no weight at all."""
    assert create_state(tmp_path, 7, 0).w.shape == (0, 1)
    assert open_state(tmp_path, 7, 0).w.shape == (0, 1)


def test_stamps_tell_neighbouring_passes_apart_and_are_never_0():
    stamps = [pass_stamp(number) for number in range(1, 1000)]
    assert min(stamps) >= 1
    assert max(stamps) <= 255
    assert all(len(set(stamps[k : k + 200])) == 200 for k in range(0, 700, 50))
