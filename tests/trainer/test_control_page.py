"""What the trainer shows of itself while it works, and leaves when it has ended, in whole lines."""

import errno
import json
import os

import pytest

from streamsvm.trainer.report import write_line
from tests.contracts.problems import make_dataset, random_problem
from tests.contracts.solver import SMALLEST_CACHE
from tests.training import Turns, train

TOLD = {"pass": 3, "lanes": [{"gap": k / 7} for k in range(2000)]}


@pytest.mark.parametrize("cache_bytes", [SMALLEST_CACHE, 10 << 20])
def test_sweeps_are_those_of_the_last_pass_until_the_next_begins(tmp_path, cache_bytes):
    dataset = make_dataset(tmp_path / "data", *random_problem(1500))
    streaming, certifying = [], []

    class Looking(Turns):
        """Notes how many sweeps there are when the trainer waits."""

        def wait_until(self, is_done):
            def look():
                if not (is_over := is_done()):
                    is_certifying = self.control["certificates_made"] < self.control["certificates_wanted"]
                    (certifying if is_certifying else streaming).append(self.control["sweeps"])
                return is_over

            return super().wait_until(look)

    settings = {"on_disk": True, "tolerance": None, "updates_per_row": 7, "max_passes": 2}
    found = train(tmp_path / "run", dataset, cache_bytes, link=Looking, **settings)
    assert set(streaming) <= {0}
    assert set(certifying) == {found.state.control["sweeps"]} == {7}


@pytest.mark.parametrize("C", [1.0, [0.1, 1.0]])
def test_a_history_has_the_sweeps_that_led_to_a_pass(tmp_path, C):
    dataset = make_dataset(tmp_path / "data", *random_problem(1500))
    settings = {"on_disk": True, "tolerance": None, "updates_per_row": 7, "max_passes": 2, "lanes": C != 1.0}
    found = train(tmp_path / "run", dataset, SMALLEST_CACHE, C=C, **settings)
    seconds = [each["elapsed_seconds"] for line in found.passes for each in (*line["sweeps"], line)]
    assert seconds == sorted(seconds)
    for line in found.passes:
        sweeps = line["sweeps"]
        assert [each["sweep"] for each in sweeps] == list(range(1, 8))
        last = sweeps[-1]
        assert {name: line[name] for name in ("gap", "dual_objective")} == {
            name: last[name] for name in ("gap", "dual_objective")
        }
        for each, of_pass in zip(last.get("lanes", ()), line.get("lanes", ()), strict=True):
            assert {name: of_pass[name] for name in ("lane", "gap")} == {name: each[name] for name in ("lane", "gap")}
        assert ("lanes" in last) == (C != 1.0)
        assert all(each["dual_objective"] <= line["primal_bound"] for each in sweeps)
    # They are of the pass: at its end it is nearer than after its first sweep.
    assert found.passes[0]["sweeps"][-1]["gap"] < found.passes[0]["sweeps"][0]["gap"]


def test_a_pass_that_streams_has_no_sweeps(tmp_path):
    dataset = make_dataset(tmp_path / "data", *random_problem(1500))
    found = train(tmp_path / "run", dataset, SMALLEST_CACHE, tolerance=None, max_passes=2)
    assert all("sweeps" not in line for line in found.passes)


def test_what_it_collects_it_says_until_all_is_there(tmp_path):
    """The reader goes by it."""
    dataset = make_dataset(tmp_path / "data", *random_problem(1500))
    seen = []

    class Looking(Turns):
        def has_committed(self, number):
            seen.append((self.control["pass"], self.control["collects"]))
            return super().has_committed(number)

    settings = {"tolerance": None, "max_passes": 3}
    train(tmp_path / "run", dataset, SMALLEST_CACHE, link=Looking, on_disk=True, **settings)
    assert len(seen) > 5 and set(seen) == {(1, 1)}
    seen.clear()
    train(tmp_path / "without", dataset, SMALLEST_CACHE, link=Looking, **settings)
    assert {collects for _, collects in seen} == {0}


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
