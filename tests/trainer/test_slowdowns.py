"""A trainer whose disk gives up says why once, in the pass in which it happened."""

import pytest

from streamsvm.reader.stream.passes import Passes
from streamsvm.trainer.rows.disk import DiskRows
from tests.contracts.problems import a_dataset, smallest_cache
from tests.trainer.disks import Disk
from tests.training import about_to_begin, solvers_with, write_run

dataset = a_dataset(500)


@pytest.mark.parametrize(
    ("at", "codes"), [(1, [["disk_failed"], [], []]), (10**9, [[], [], []])], ids=["in the first pass", "never"]
)
def test_in_the_pass_it_happened(tmp_path, dataset, at, codes):
    assert told(tmp_path, dataset, fails_at("append", at)) == codes


def test_in_a_sweep_of_a_later_pass(tmp_path, dataset):
    disk = Disk()
    found = told(tmp_path, dataset, disk, after=lambda: setattr(disk, "fails", fails_at("read", 1).fails))
    assert found == [[], ["disk_failed"], []]


@pytest.mark.parametrize("is_slow", [True, False])
def test_rows_are_visited_again_in_the_first_pass_where_the_disk_is_slow(tmp_path, dataset, monkeypatch, is_slow):
    monkeypatch.setattr(Passes, "is_slow", is_slow)
    monkeypatch.setattr(DiskRows, "seal", lambda self, *_: self.close())
    write_run(tmp_path / "run", dataset, smallest_cache(), on_disk=True, tolerance=None, updates_per_row=4)
    with about_to_begin(tmp_path / "run", solvers=solvers_with(Disk().rows)) as (trainer, _):
        first = trainer.step()
        trainer.shutdown()
    assert (first["updates"] > 2 * 500) is is_slow


def fails_at(kind, number):
    def fails(what, call):
        if what == kind and call >= number:
            raise OSError("the disk is gone")

    return Disk(fails)


def told(tmp_path, dataset, disk, after=lambda: None):
    """Codes in the history of three passes, with what happens after the first."""
    write_run(tmp_path / "run", dataset, smallest_cache(), on_disk=True, tolerance=None)
    solvers = solvers_with(lambda directory, lent, row_cache=None: disk.rows(directory, lent, row_cache))
    with about_to_begin(tmp_path / "run", solvers=solvers) as (trainer, _):
        found = [trainer.step()]
        after()
        found += [trainer.step(), trainer.step()]
        trainer.shutdown()
    return [[each["code"] for each in one.get("slowdowns", ()) if each["code"].startswith("disk")] for one in found]
