"""Which of the waiting jobs runs next: by priority and age, as long as there is room; and each one's turn comes."""

import random
import sqlite3
from types import SimpleNamespace

import pytest

from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.processes import jobs as job_module
from streamsvm.service.processes.jobs import JobWork
from streamsvm.service.processes.work import Needs
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from tests.end_to_end.service import wait_for

LIMIT = 100


class Jobs:
    """A queue whose jobs need as much memory as they are given."""

    def __init__(self, settings: Settings) -> None:
        self.store = store = Store(settings.database)
        self.dataset = store.add_dataset("data")
        store.set_dataset_ready(self.dataset)
        self.needs: dict[str, Needs] = {}
        self.work = JobWork(settings, store)
        self.work._plan = lambda _: None

    def submit(self, memory_bytes: int = 1, has_cluster: bool = False, is_alone: bool = False, **fields: int) -> str:
        spec = parse_spec({"dataset": "data", **fields}).model_dump()
        job = self.store.add_job(self.dataset, spec)
        self.needs[job] = Needs(memory_bytes, has_cluster, is_alone)
        return job

    def run(self, job: str, needs: Needs) -> None:
        self.work.active[job] = SimpleNamespace(needs=needs)

    def claim(self, *beside: Needs) -> str | None:
        record = self.work._take(beside)
        if record is None:
            return None
        self.run(record["id"], self.needs[record["id"]])
        return record["id"]

    def end(self, job: str) -> None:
        self.store.finish(job, "succeeded")
        del self.work.active[job]


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    made = Jobs(Settings(tmp_path))
    monkeypatch.setattr(job_module, "needs_of", lambda record, _: made.needs[record["id"]])
    monkeypatch.setattr(job_module, "memory_limit", lambda: LIMIT)
    return made


def test_the_oldest_of_the_highest_priority_comes_first(jobs):
    priorities = [0, 5, -1, 5, 0]
    submitted = [jobs.submit(priority=priority) for priority in priorities]
    assert [jobs.claim() for _ in range(6)] == [*(submitted[k] for k in (1, 3, 0, 4, 2)), None]


def test_a_damaged_record_has_no_priority_and_spoils_no_other(jobs):
    first, damaged, last = (jobs.submit(priority=priority) for priority in (1, 5, -1))
    with jobs.store._database.write() as connection:
        connection.execute("UPDATE jobs SET spec = '{\"prio' WHERE id = ?", (damaged,))
    assert [jobs.claim() for _ in range(3)] == [first, damaged, last]


def test_a_queue_that_waits_is_read_again_only_after_a_write(jobs, monkeypatch):
    first = jobs.submit(60)
    assert jobs.claim() == first
    second, reads = jobs.submit(60), []
    read = Store.waiting
    monkeypatch.setattr(Store, "waiting", lambda *of: reads.append(1) or read(*of))
    wait_for(lambda: jobs.claim() is None and len(reads) and jobs.work._waiting() is jobs.work._waiting())
    before = len(reads)
    assert [jobs.claim() for _ in range(100)] == [None] * 100 and len(reads) == before
    other = Store(jobs.store._database.directory / "streamsvm.sqlite")  # of another process
    third = other.add_job(jobs.dataset, parse_spec({"dataset": "data", "priority": 1}).model_dump())
    jobs.needs[third] = Needs(1)
    assert jobs.claim() == third and len(reads) > before
    jobs.end(first)
    assert jobs.claim() == second


def test_jobs_that_pause_are_passed_over(jobs):
    one, other = jobs.submit(), jobs.submit()
    jobs.work._pause(one)
    assert jobs.claim() == other


def test_records_that_cannot_be_read_end_no_job_that_runs(jobs, monkeypatch):
    first, second = jobs.submit(), jobs.submit()
    assert jobs.claim() == first
    with monkeypatch.context() as patch:
        patch.setattr(Store, "waiting", lambda *_: jobs.store._database.rows("SELECT spam"))
        assert jobs.claim() is None
        jobs.work.active.clear()
        with pytest.raises(sqlite3.OperationalError):
            jobs.claim()
    assert jobs.claim() == second


def test_memory_has_to_have_room_for_all_but_for_a_job_alone(jobs):
    first, second, third = jobs.submit(2 * LIMIT), jobs.submit(LIMIT), jobs.submit(0)
    assert jobs.claim() == first
    assert jobs.claim() is None
    jobs.end(first)
    assert [jobs.claim(), jobs.claim()] == [second, third]


def test_a_job_without_room_is_overtaken_until_its_turn_comes(jobs):
    long, large = jobs.submit(50), jobs.submit(80)
    small = [jobs.submit(10) for _ in range(3)]
    assert [jobs.claim(), jobs.claim(), jobs.claim()] == [long, small[0], small[1]]
    assert jobs.store.job(large)["transitions"][-1]["waits_for"] == [long]
    jobs.end(long)
    # Those that overtook it still run: it has no room, and none overtakes it any more.
    jobs.run(small[0], Needs(30))
    assert jobs.claim() is None
    jobs.end(small[0])
    assert [jobs.claim(), jobs.claim()] == [large, small[2]]


def test_a_prediction_takes_room_beside_jobs_but_holds_up_no_job_alone(jobs):
    first, second = jobs.submit(60), jobs.submit(30)
    assert jobs.claim(Needs(20)) == first
    assert jobs.claim(Needs(20)) is None
    assert jobs.claim() == second


def test_one_job_at_a_time_has_the_cluster(jobs):
    first, second, third = jobs.submit(0, True), jobs.submit(0, True), jobs.submit(60)
    assert [jobs.claim(), jobs.claim(), jobs.claim()] == [first, third, None]
    jobs.end(first)
    assert jobs.claim() == second


def test_a_job_that_a_worker_may_have_died_of_runs_alone(jobs):
    first, suspect, third = jobs.submit(), jobs.submit(is_alone=True), jobs.submit()
    assert [jobs.claim(), jobs.claim(), jobs.claim()] == [first, third, None]
    jobs.end(first)
    assert jobs.claim() is None
    jobs.end(third)
    fourth = jobs.submit()
    assert [jobs.claim(), jobs.claim()] == [suspect, None]
    jobs.end(suspect)
    assert jobs.claim() == fourth


def test_a_job_that_cannot_be_planned_is_begun_for_its_failure_to_be_told(jobs):
    jobs.claim() or jobs.submit(60)
    running, odd = jobs.claim(), jobs.submit(60)
    jobs.work._plan = lambda record: 1 / 0
    assert running and jobs.claim() == odd


@pytest.mark.parametrize("seed", range(20))
def test_every_job_has_its_turn_within_memory(jobs, seed):
    """Jobs of random sizes come and go; no more than the limit is taken, and nobody waits for ever."""
    rng = random.Random(seed)
    waiting = {jobs.submit(rng.choice([1, 10, 60, 95, 150])) for _ in range(8)}
    for _ in range(300):
        while len(jobs.work.active) < 3 and (job := jobs.claim()):
            waiting.discard(job)
        taken = sum(needs.memory_bytes for needs in jobs.work.needs)
        assert taken <= LIMIT or len(jobs.work.active) == 1
        if not waiting:
            break
        jobs.submit(1)  # small ones come all the time
        jobs.end(rng.choice(sorted(jobs.work.active)))
    assert not waiting
