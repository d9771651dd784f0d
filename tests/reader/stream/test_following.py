"""Training on a dataset that is still being read in, in one process: a piece is written whenever the reader waits."""

import itertools
import resource
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import streamsvm.reader.stream.arrivals
import streamsvm.trainer.checkpoints
from streamsvm.reader.stream.process import Reader
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.plan.plan import MOST_ROWS, plan_arriving
from streamsvm.service.jobs.plan.run_file import has_leading_bias
from streamsvm.service.processes.run import prepare_run
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.errors import DatasetLost, RowTooLong, StorageError
from streamsvm.storage.features.weighing import with_bias_last
from streamsvm.storage.machine.disk_health import DiskHealth
from streamsvm.storage.rows.cache_plan import plan_cache
from streamsvm.storage.rows.csr import Rows
from streamsvm.storage.run.checkpoint import newest_checkpoint
from streamsvm.storage.run.state import open_state
from streamsvm.trainer.problem.losses import LOSSES, SVM_LOSSES
from streamsvm.trainer.process import Trainer
from tests.contracts.problems import random_problem
from tests.contracts.solver import SMALLEST_CACHE, check_certificate, exact
from tests.reference.dcd import dcd
from tests.storage.staging import Staging
from tests.training import Outcome, Turns, to_the_end, train

MOST_FEATURES = 1 << 27
NEGATIVE, POSITIVE = 3.0, 7.0
PIECE_ROWS = 40


def pieces(X, y):
    """The problem cut into pieces; its labels are not +1 and -1."""
    X, label = X.sorted_indices(), np.where(y > 0, POSITIVE, NEGATIVE)
    for first in range(0, X.shape[0], PIECE_ROWS):
        part = X[first : first + PIECE_ROWS]
        yield Rows(
            label[first : first + PIECE_ROWS], part.indptr.astype(np.int64), part.indices.astype(np.int32), part.data
        )


class Feed:
    """What happens to a dataset, an event whenever the reader has to wait."""

    def __init__(self, directory, parts, end=Staging.publish):
        self.final = directory / "data"
        self.staging = None
        self.events = iter(
            [self._begin, *(self._writing(*part) for part in enumerate(parts)), lambda: end(self.staging)]
        )

    def next(self):
        event = next(self.events, None)
        assert event is not None, "the reader waits for ever"
        event()

    def _begin(self):
        self.staging = Staging(self.final)

    def _writing(self, number, rows):
        return lambda: self.staging.write(number % 2, rows)


@pytest.fixture
def follow(tmp_path, monkeypatch):
    """follow(feed, ...): a Reader that follows what is fed."""
    readers = []

    def make(feed, cache_bytes=SMALLEST_CACHE, n_rows=MOST_ROWS, width=MOST_FEATURES, **settings):
        # Turns are taken, so the pace is fixed; what the plan says does not depend on it.
        spec = JobSpec(**{"dataset": "test", "bias": None, "pace": "fixed", "cache_bytes": cache_bytes, **settings})
        (tmp_path / "checkpoints").mkdir(exist_ok=True)
        plan = plan_arriving(spec, width, plan_cache(cache_bytes, 1), 2, n_rows)
        prepare_run(tmp_path / "run", plan, feed.final, tmp_path / "checkpoints")
        monkeypatch.setattr(Reader, "_wait", lambda _reader: feed.next())
        readers.append(Reader(tmp_path / "run"))
        return readers[-1]

    yield make
    while readers:
        readers.pop().shutdown()


def finish(run, reader, link=Turns) -> Outcome:
    """Train to the end with a reader that has begun to follow."""
    passes, results = to_the_end(run, reader, link)
    manifest, leads = Dataset(run.parent / "data").manifest, has_leading_bias(run)
    width = manifest.width + leads
    state = open_state(run, MOST_ROWS, MOST_FEATURES + leads)
    # Beyond what there turned out to be nothing was written.
    assert not state.alpha[manifest.n_rows : 4 * manifest.n_rows].any()
    assert not state.w[width : 4 * width].any()
    known = open_state(run, manifest.n_rows, width)
    return Outcome(passes, results, replace(known, w=with_bias_last(known.w)) if leads else known)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_optimum_is_that_of_the_complete_dataset(tmp_path, follow, loss):
    settings = {"loss": loss, "C": 2.0, "tolerance": None, "relative_gap": 1e-6, "max_passes": 500}
    settings["solver_options"] = {"updates_per_row": 6}
    feed = Feed(tmp_path, pieces(*random_problem(400)))
    found = finish(tmp_path / "run", follow(feed, **settings))
    assert found.result["stop_reason"] == "relative_gap"
    assert all(done["rows_unvisited"] == 0 for done in found.passes)
    problem = exact(feed.final, POSITIVE, loss=loss, C=2.0)
    check_certificate(found, problem)
    if loss in SVM_LOSSES:
        best = dcd(problem.X, problem.y, 2.0, loss, tol=1e-8)
        assert found.result["certificate"]["dual_objective"] == pytest.approx(best.dual, rel=2e-6)
        for done in found.passes:
            assert done["dual_objective"] <= best.primal * (1 + 1e-12)
            assert done["primal_bound"] >= best.dual * (1 - 1e-12)


@pytest.mark.parametrize("loss", ["hinge", "squared_epsilon_insensitive"])
def test_a_bias_is_that_of_the_complete_dataset(tmp_path, follow, loss):
    """Though nobody knows, when the first rows come, which features come after."""
    X, y = random_problem(400, 300, noise=0.05)
    X = X.multiply(np.arange(300) < np.arange(1, 401)[:, None]).tocsr()
    settings = {"loss": loss, "C": 0.5, "tolerance": None, "relative_gap": 1e-8, "max_passes": 500, "bias": 2.0}
    feed = Feed(tmp_path, pieces(X, y))
    found = finish(tmp_path / "run", follow(feed, **settings))
    assert found.result["stop_reason"] == "relative_gap" and abs(found.w[-1]) > 1e-3
    check_certificate(found, exact(feed.final, POSITIVE, 2.0, loss=loss, C=0.5))
    later = train(tmp_path / "later", feed.final, SMALLEST_CACHE, **settings)
    np.testing.assert_allclose(found.w, later.w, atol=1e-3)
    checkpoint = newest_checkpoint(tmp_path / "checkpoints")
    assert checkpoint["w"].reshape(-1).tolist() == found.w.reshape(-1).tolist()


def test_no_checkpoint_is_of_a_part_of_the_data(tmp_path, follow, monkeypatch):
    """A job cannot go on from one when the dataset has grown."""
    monkeypatch.setattr(streamsvm.reader.stream.arrivals, "SECTION_PIECES", 2)
    kept, real = [], streamsvm.trainer.checkpoints.write_checkpoint

    def write(path, about, arrays):
        kept.append((about["pass"], (len(arrays["alpha"]), len(arrays["w"]))))
        real(path, about, arrays)

    monkeypatch.setattr(streamsvm.trainer.checkpoints, "write_checkpoint", write)
    feed = Feed(tmp_path, pieces(*random_problem(400)))
    finish(tmp_path / "run", follow(feed, tolerance=None, max_passes=3, checkpoint_seconds=1e-9))
    manifest = Dataset(feed.final).manifest
    assert {shape for _, shape in kept} == {(manifest.n_rows, manifest.width)}
    # The passes after the first have several.
    assert len(kept) > len({pass_ for pass_, _ in kept}) >= 2


def test_rows_and_features_come_to_be_known(tmp_path, follow):
    """Steps say how many there are so far; in the end all, counted as in the complete dataset."""
    X, y = random_problem(400, 300)
    # Features appear one after the other.
    X = X.multiply(np.arange(300) < np.arange(1, 401)[:, None]).tocsr()
    steps = []

    class Watching(Turns):
        def begin_step(self, step, pass_):
            steps.append(step)
            super().begin_step(step, pass_)

    feed = Feed(tmp_path, pieces(X, y))
    finish(tmp_path / "run", follow(feed, tolerance=None, max_passes=2), Watching)
    manifest = Dataset(feed.final).manifest
    seen = [(step.n_rows, step.width) for step in steps]
    assert seen == sorted(seen) and seen[0] < seen[-1] == (manifest.n_rows, manifest.width) == (400, 300)
    assert sum(step.rows for step in steps if step.pass_ == 1) == 400
    assert len({n_rows for n_rows, _ in seen}) > 3
    first = [step for step in steps if step.pass_ == 1]
    streamed = itertools.accumulate(step.rows for step in first)
    assert all(so_far <= step.n_rows for so_far, step in zip(streamed, first, strict=True))


def test_training_begins_before_all_is_there(tmp_path, follow):
    feed = Feed(tmp_path, pieces(*random_problem(800)))
    reader = follow(feed)
    while reader.step():
        pass
    assert not feed.final.exists() and 0 < feed.staging.rows < 800


def test_a_disk_that_is_written_is_not_called_slow(tmp_path, follow, monkeypatch):
    monkeypatch.setattr(DiskHealth, "timed", lambda health, *timed: setattr(health, "_lost", 1e9) or timed[-1]())
    reader = follow(Feed(tmp_path, pieces(*random_problem(400))), tolerance=None, max_passes=1)
    assert finish(tmp_path / "run", reader).state.control["disk_is_slow"] == 0


@pytest.mark.parametrize("first", [-1.0, 1.0])
def test_the_larger_label_is_the_positive_one(tmp_path, follow, first):
    """Though the first pieces are all of one class: their rows wait until the other is known."""
    X, y = random_problem(400, noise=0.05)
    order = np.argsort(y != first, kind="stable")
    feed = Feed(tmp_path, pieces(X[order], y[order]))
    reader = follow(feed, tolerance=1e-2)
    reader.step()
    assert len(feed.staging.labels) == 2
    found = finish(tmp_path / "run", reader)
    check_certificate(found, exact(feed.final, POSITIVE))
    assert np.mean((X @ found.w[: X.shape[1]] > 0) == (y > 0)) > 0.9


def test_one_class_is_found_out_at_the_end(tmp_path, follow):
    """That this suits nobody is for the service to say: nothing hangs."""
    feed = Feed(tmp_path, pieces(random_problem(100)[0], np.ones(100)))
    found = finish(tmp_path / "run", follow(feed))
    assert found.result["converged"]
    check_certificate(found, exact(feed.final, POSITIVE))


def read_on(reader):
    """For ever, for a trainer that takes whatever comes at once."""
    control = reader._state.control
    while True:
        reader.step()
        control["started_step"] = control["finished_section"] = control["committed_step"]


@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_dataset_that_is_given_up_ends_the_reader(tmp_path, follow, count):
    """Whether it had no rows yet to give out, or is in the middle of them."""
    X, y = random_problem(600)
    order = np.argsort(y, kind="stable") if count == 1 else np.arange(600)
    parts = itertools.islice(pieces(X[order], y[order]), count)
    reader = follow(Feed(tmp_path, parts, end=Staging.give_up))
    with pytest.raises(DatasetLost):
        read_on(reader)


def test_a_row_longer_than_a_segment_is_named(tmp_path, follow):
    """Its length was not known when the cache was divided."""
    X, y = random_problem(200, 3000)
    X = X.tolil()
    X[150] = 0.5
    feed = Feed(tmp_path, pieces(X.tocsr(), y))
    reader = follow(feed)
    with pytest.raises(RowTooLong, match="3000 values"):
        read_on(reader)
    assert reader._state.control["rows_streamed"] <= 150


@pytest.mark.parametrize("bounds", [{"n_rows": 250}, {"width": 100}], ids=str)
def test_more_than_there_is_room_for_ends_the_reader(tmp_path, follow, bounds):
    """No kernel writes beyond the end of an array."""
    reader = follow(Feed(tmp_path, pieces(*random_problem(400))), **bounds)
    with pytest.raises(StorageError, match="room"):
        read_on(reader)


def test_state_files_take_the_room_of_what_there_is(tmp_path, follow):
    """They are as long as there can be rows and features."""
    feed = Feed(tmp_path, pieces(*random_problem(400)))
    finish(tmp_path / "run", follow(feed, tolerance=None, max_passes=3))
    sizes = {name: (tmp_path / "run" / name).stat() for name in ("alpha", "w", "score", "visited")}
    assert sizes["alpha"].st_size == 8 * MOST_ROWS and sizes["w"].st_size == 8 * MOST_FEATURES
    assert sum(512 * size.st_blocks for size in sizes.values()) < 1 << 20


def test_a_trainer_touches_no_more_than_there_is(tmp_path, follow):
    """The length of w is a bound: a gigabyte here, of which nothing is used."""
    feed = Feed(tmp_path, pieces(*random_problem(100)))
    reader = follow(feed, width=1 << 27)
    while not reader.step():
        pass
    before = _resident_bytes()
    one = Trainer(tmp_path / "run", reader.cache_reader())
    assert _resident_bytes() - before < 1 << 28 and one.stop_reason is None
    reader.shutdown()


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
