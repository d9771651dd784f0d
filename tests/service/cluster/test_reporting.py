"""What a job on several machines says of itself in a line of its history."""

import io
import json
from types import SimpleNamespace

import pytest

from streamsvm.reader.ingest.append import append_rows
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.service.cluster.rounds.reporting import Reporter
from streamsvm.storage.run.slowdowns import bits_of
from streamsvm.storage.run.state import create_state
from tests.contracts.problems import libsvm_text, make_dataset, random_problem
from tests.service.cluster.coordinating import coordinate

MACHINES = SimpleNamespace(node=lambda number: f"node{number}", is_lost=lambda _: False)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The coordinator of a job of one round."""
    directory = tmp_path_factory.mktemp("job")
    X, y = random_problem(300)
    make_dataset(directory / "data", X[:150], y[:150])
    text = libsvm_text(X[150:], y[150:])
    append_rows([text], directory / "data", InputOptions(index_base=1), Limits(), threads=1)
    return coordinate(directory / "data", directory, 2, max_passes=1, relative_gap=None)[0]


def told(line):
    return [each["code"] for each in json.loads(line).get("slowdowns", ())]


def test_faster_ways_that_a_machine_gives_up_are_told_once(done, tmp_path):
    reports = io.StringIO()
    state = create_state(tmp_path, 300, len(done.w))
    reporter = Reporter(state, {"passes_before": 0, "number": 0}, MACHINES, reports)
    for part in done.shards:
        assert "slowdowns" in part.counts
        part.counts["slowdowns"] = 0
    reporter.report(done)
    done.shards[1].counts["slowdowns"] = bits_of({"disk_slow"})
    reporter.report(done)
    done.lacked_room = True
    done.shards[0].counts["slowdowns"] = bits_of({"disk_slow", "cache_on_disk"})
    reporter.report(done)
    found = [told(line) for line in reports.getvalue().splitlines()]
    assert found == [[], ["disk_slow"], ["cache_on_disk", "pool_without_room"]]
    assert state.control["slowdowns"] == bits_of({"disk_slow", "cache_on_disk", "pool_without_room"})
