"""The segments of the kernel bench hold the problem, and the ratios are the right way up."""

from pathlib import Path

import numpy as np
import pytest

from storage.plan import LMDB_PAGE_HEADER, SMALLEST_SEGMENT
from storage.segment import packed_bytes, room
from tests.bench.comparison import ratios
from tests.bench.curve import Point
from tests.bench.jobs import Command, Finished
from tests.bench.kernel import make_segments, smallest_segment
from tests.bench.measurement import Comparison
from tests.bench.peers.measure import Measured
from tests.bench.prepared import Prepared
from tests.bench.reading import Reading
from tests.contracts.problems import random_problem


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
            assert segment.y[position] == y[row]
            assert segment.Qii[position] == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("longest", [1, 500, 600, 5000])
def test_smallest_segment_holds_the_longest_row_and_its_half_does_not(longest):
    size = smallest_segment(longest)
    assert room(size - LMDB_PAGE_HEADER) >= packed_bytes(1, longest)
    assert size == SMALLEST_SEGMENT or room(size // 2 - LMDB_PAGE_HEADER) < packed_bytes(1, longest)


def comparison() -> Comparison:
    """Ingest 10, start 1, train to 1e-3 in 5, certify 2; LIBLINEAR reads in 40, trains in 20 or, to 1e-3, in 8."""
    job = Finished([{"elapsed_seconds": 5.0}], {}, 0.1, 6.0, 8.0, 0)
    liblinear = Measured((Point(8.0, 1.001, "-e 1"), Point(20.0, 1.0001, "-e 0.1")))
    return Comparison(
        "data", Prepared(Path(), 1, 1, 1), 1, 1.0, 0.0,
        curves={"streamsvm": [(Point(6.0, 1.001, "1 passes"),)], "LIBLINEAR": [liblinear.points]},
        jobs={"streamsvm": [job]},
        peers={"LIBLINEAR": [liblinear]},
        ingests=[Command(10.0, 0, {})],
        commands={1e-3: [Command(30.0, 0, {})]},
        readings=[Reading(40.0, None)],
    )  # fmt: skip


def test_ratios_above_one_are_of_a_faster_streamsvm():
    found = comparison()
    assert found.end_to_end(1.0001e-3) == 18.0
    assert ratios(found, 1e-3, []) == pytest.approx([40 / 18, 60 / 18, 60 / 30, 60 / 8, 8 / 5])
