"""The comparison: its figures cover all that is waited for."""

from pathlib import Path

from tests.bench.commands import Command
from tests.bench.curve import Point
from tests.bench.jobs import Finished
from tests.bench.measurement import Comparison
from tests.bench.peers.measure import Measured
from tests.bench.prepared import Prepared
from tests.bench.reading import Reading
from tests.bench.stages import stages_table
from tests.bench.usage import Spent

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
    """Ingest 10; LIBLINEAR reads in 40, trains in 20 or, to the level, in 8."""
    points = Point(Spent(8.0, 8.0), 1.001, "-e 1"), Point(Spent(20.0, 20.0), 1.0001, "-e 0.1")
    fast = Measured((Point(Spent(2.0, 4.0), 1.0009, "tol 1"),))
    given = {
        "jobs": [{LEVEL: job()}],
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
    found = comparison(jobs=[{LEVEL: job(converged=False)}], first_jobs={LEVEL: [job(converged=False)]})
    assert (found.next_job(LEVEL), found.training(LEVEL), found.whole_run(LEVEL)) == (None, None, None)
    assert found.command(1e-4) is None


def test_without_liblinears_program_its_whole_run_is_reading_and_training():
    found = comparison(readings=[Reading(40.0, None)])
    assert found.liblinears_whole_run == Spent(60.0)


def test_stages_say_how_busy_the_cores_were(monkeypatch):
    monkeypatch.setattr("tests.bench.usage.CORES", 4)
    lines = list(stages_table(comparison()))
    assert "| sweep | 3 | 6 | 50% | - | - | - |" in lines
    assert "| job came to | 5.0e-04 |  |  | - |  |  |" in lines
    assert "| LIBLINEAR came to | 1.0e-04 |  |  | 1.0e-04 |  |  |" in lines
