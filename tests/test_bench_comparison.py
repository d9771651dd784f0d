"""What the comparison's figures cover, that its ratios are the right way up, whom it compares with, on what."""

from pathlib import Path

import numpy as np
import pytest

from streamsvm.storage.rows.cache_plan import LMDB_PAGE_HEADER, SMALLEST_SEGMENT
from streamsvm.storage.rows.segment import packed_bytes, room
from tests.bench.commands import Command
from tests.bench.comparison import chosen
from tests.bench.curve import Point
from tests.bench.jobs import Finished, phase
from tests.bench.kernel import kernel_sweep_seconds, make_segments, smallest_segment
from tests.bench.measurement import Comparison
from tests.bench.peers.measure import Measured
from tests.bench.prepared import Prepared
from tests.bench.ratios import PROMISED, ratio, ratios_table
from tests.bench.reading import Reading
from tests.bench.stages import stages_table
from tests.bench.usage import Spent
from tests.contracts.problems import random_problem

LEVEL = 1e-3


def job(sweep: float = 3.0, converged: bool = True) -> Finished:
    """Start 1, stream 1, sweep 3, certify 2 seconds, all on both cores."""
    seconds = {"start": 1.0, "stream": 1.0, "sweep": sweep, "certify": 2.0}
    phases = {name: Spent(each, 2 * each) for name, each in seconds.items()}
    return Finished([], [{"converged": converged, "certificate": {"primal_objective": 1.0005}}], 0.1, phases, 0)


def command(converged: bool = True) -> Command:
    """Of 30 seconds and 40 core seconds."""
    result = {"converged": converged, "certificate": {"primal_objective": 1.0005}}
    return Command(Spent(30.0, 40.0), 0, {"result": result})


def comparison(**fields) -> Comparison:
    """Ingest 10; LIBLINEAR reads in 40, trains in 20 or, to the level, in 8; sbm in a job whose sweeps take 9."""
    points = Point(Spent(8.0, 8.0), 1.001, "-e 1"), Point(Spent(20.0, 20.0), 1.0001, "-e 0.1")
    fast = Measured((Point(Spent(2.0, 4.0), 1.0009, "tol 1"),))
    given = {
        "jobs": {"streamsvm": [{LEVEL: job()}], "sbm": [{LEVEL: job(sweep=9.0)}]},
        "peers": {"LIBLINEAR": [Measured(points)], "Snap ML, 1 thread": [fast]},
        "first_jobs": {LEVEL: [job(sweep=5.0)]},
        "ingests": [Command(Spent(10.0, 15.0), 0, {})],
        "commands": {LEVEL: [command()], 1e-4: [command(converged=False)]},
        "readings": [Reading(40.0, Spent(60.0, 61.0))],
    }
    return Comparison("data", Prepared(Path(), 1, 1, 1), 1, 1.0, 0.0, **{**given, **fields})


def test_the_certificate_counts_in_all_that_a_user_waits_for():
    found = comparison()
    assert found.training(LEVEL) == Spent(6.0, 12.0)
    assert found.next_job(LEVEL) == Spent(7.0, 14.0)
    assert found.whole_run(LEVEL) == Spent(19.0, 33.0)  # of a first job
    assert found.command(LEVEL) == Spent(30.0, 40.0)


def test_a_job_that_certified_less_has_not_come_there():
    found = comparison(jobs={"streamsvm": [{LEVEL: job(converged=False)}]}, first_jobs={LEVEL: [job(converged=False)]})
    assert (found.next_job(LEVEL), found.training(LEVEL), found.whole_run(LEVEL)) == (None, None, None)
    assert found.command(1e-4) is None


def test_ratios_above_one_are_of_a_faster_streamsvm():
    pairs = [of(comparison(), LEVEL) for of in PROMISED.values()]
    assert [ratio(*pair, "seconds") for pair in pairs] == pytest.approx([60 / 19, 60 / 30, 60 / 7, 8 / 6])
    assert [ratio(*pair, "core_seconds") for pair in pairs] == pytest.approx([61 / 33, 61 / 40, 61 / 14, 8 / 12])


def test_the_table_of_ratios_has_seconds_and_core_seconds_of_everybody():
    table = [line for line in ratios_table(comparison()) if line.startswith("| 1e")]
    assert table[0].split(" | ")[1:] == ["seconds", "3.16x", "2.00x", "8.57x", "1.33x", "2.00x", "0.33x |"]
    assert table[1].split(" | ")[1:] == ["core seconds", "1.85x", "1.52x", "4.36x", "0.67x", "2.00x", "0.33x |"]
    assert set(table[2].split(" | ")[2:]) <= {"-", "- |", "2.00x"}


def test_without_liblinears_program_its_whole_run_is_reading_and_training():
    found = comparison(readings=[Reading(40.0, None)])
    assert found.liblinears_whole_run == Spent(60.0)
    assert ratio(found.liblinears_whole_run, found.next_job(LEVEL), "core_seconds") is None


def test_stages_say_how_busy_the_cores_were(monkeypatch):
    monkeypatch.setattr("tests.bench.usage.CORES", 4)
    lines = list(stages_table(comparison()))
    assert "| sweep | 3 | 6 | 50% | - | - | - |" in lines
    assert "| job came to | 5.0e-04 |  |  | - |  |  |" in lines
    assert "| LIBLINEAR came to | 1.0e-04 |  |  | 1.0e-04 |  |  |" in lines


def test_whom_to_compare_with_is_chosen_by_module():
    assert chosen("") == (["streamsvm"], ["LIBLINEAR"])
    own, peers = chosen("liblinear_multicore, sbm")
    assert own == ["streamsvm", "sbm"]
    assert peers == ["LIBLINEAR", "liblinear-multicore, 1 thread", "liblinear-multicore, 2 threads"]
    with pytest.raises(ValueError, match="no nobody; there are bm, "):
        chosen("snapml,nobody")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"started_step": 0}, "start"),
        ({}, "stream"),
        ({"rows_streamed": 200}, "sweep"),
        ({"rows_streamed": 0, "sweeps": 1}, "sweep"),
        ({"rows_streamed": 200, "pass": 3}, "stream"),
        ({"rows_streamed": 200, "certificates_wanted": 2}, "certify"),
        ({"rows_streamed": 200, "certificates_wanted": 1}, "sweep"),
        ({"rows_streamed": 200, "training_done": 1}, "certify"),
    ],
)
def test_phases_of_a_job(fields, expected):
    page = {"started_step": 1, "pass": 2, "rows_streamed": 199, "certificates_wanted": 1, "certificates_made": 1}
    assert phase({**page, "training_done": 0, "sweeps": 0, **fields}, 100) == expected


@pytest.mark.parametrize("size", [SMALLEST_SEGMENT, 1 << 20])
def test_segments_hold_every_row_once(size):
    X, y = random_problem(500, 200)
    X = X.sorted_indices()
    segments = make_segments(X, y, size)
    ids = np.concatenate([segment.row_id for segment in segments])
    assert sorted(ids) == list(range(500))
    assert len(segments) == 1 or not np.array_equal(ids, np.arange(500))
    for segment in segments[:3]:
        for position, row in enumerate(segment.row_id):
            entries = slice(segment.indptr[position], segment.indptr[position + 1])
            assert np.array_equal(segment.indices[entries], X[row].indices)
            assert np.array_equal(segment.values[entries], X[row].data)
            assert 1.0 - 2.0 * segment.class_code[position] == y[row]
            assert segment.Qii[position] == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("longest", [1, 500, 600, 5000])
def test_smallest_segment_holds_the_longest_row_and_its_half_does_not(longest):
    size = smallest_segment(longest)
    assert room(size - LMDB_PAGE_HEADER) >= packed_bytes(1, longest)
    assert size == SMALLEST_SEGMENT or room(size // 2 - LMDB_PAGE_HEADER) < packed_bytes(1, longest)


def test_sweeps_over_segments_are_timed():
    X, y = random_problem(300, 50)
    assert kernel_sweep_seconds(make_segments(X.sorted_indices(), y, SMALLEST_SEGMENT), X.shape, 3) > 0
