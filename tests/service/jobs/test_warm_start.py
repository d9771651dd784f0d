"""What a job begins with: alpha of the rows that are still there, and the w that it makes of them."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.reader.ingest.append import append_rows, remove_block
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.stream.process import Reader
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.lanes.warm_start import TRAINED_ROWS, beginning, check_warm_start, note_rows
from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.service.processes.jobs import JobWork
from streamsvm.service.processes.run import prepare_run
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.rows.csr import LARGE_W
from streamsvm.storage.run.checkpoint import SURE_SLOTS, write_checkpoint
from streamsvm.storage.run.state import State
from tests.contracts.problems import stored_problem
from tests.refusals import refused
from tests.training import open_state_of

KEY = 1  # the feature whose value is a row's own number


@dataclass
class House:
    """A data directory with the dataset `data`, whose rows all have a number of their own."""

    directory: Path
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    n_made: int = 0
    store: Store = field(init=False)
    settings: Settings = field(init=False)

    def __post_init__(self) -> None:
        self.settings = Settings(self.directory, self.directory)
        self.settings.create_directories()
        self.store = Store(self.settings.database)
        self.dataset_id = self.store.add_dataset("data")
        ingest([self.text(40)], self.dataset)
        self.store.set_dataset_ready(self.dataset_id)

    @property
    def dataset(self) -> Path:
        return self.settings.datasets / self.dataset_id

    @property
    def manifest(self):
        return read_manifest(self.dataset)

    def text(self, rows: int, labels=(1, -1), width: int = 30) -> bytes:
        lines = []
        for k in range(rows):
            self.n_made += 1
            label, feature = labels[k % 2], self.rng.integers(KEY + 1, width)
            lines.append(f"{label} {KEY}:{self.n_made} {feature}:{self.rng.standard_normal():.6g}")
        return ("\n".join(lines) + "\n").encode()

    def append(self, text: bytes) -> None:
        append_rows([text], self.dataset, InputOptions(), InputLimits(), threads=1)

    def remove(self, place: int) -> None:
        blocks = self.manifest.blocks
        if len(blocks) > 1:
            remove_block(self.dataset, blocks[place % len(blocks)].number)

    def plan(self, **spec):
        return plan_job(JobSpec(dataset="data", cache_bytes=1 << 22, **{"bias": None, **spec}), self.manifest, cores=1)

    def numbers(self):
        """Of the rows, by id."""
        X, _ = stored(self.dataset)
        key = Dataset(self.dataset).places()[KEY] if self.manifest.renumbered else KEY
        return X[:, key].toarray().ravel().astype(int)

    def end_job(self, state: str = "succeeded", **spec) -> str:
        """One that has found an alpha that tells the rows by their numbers, and w of it; its id."""
        plan = self.plan(**spec)
        job_id = self.store.add_job(self.dataset_id, plan.spec.model_dump())
        job_dir = self.settings.jobs / job_id
        job_dir.mkdir()
        note_rows(job_dir, plan, self.dataset, has_begun=False)
        X, y = stored(self.dataset, plan.spec.bias)
        alpha = alpha_of(self.numbers(), plan.spec.C)
        arrays = {"alpha": alpha, "w": X.T @ (alpha * y)}
        write_checkpoint(job_dir / SURE_SLOTS[0], {"number": 1, "pieces": 0, "control": {}}, arrays)
        self.store.claim()
        self.store.finish(job_id, state)
        return job_id

    def begin(self, **spec) -> tuple[State, dict]:
        """A job that is about to train; what its record says of its start."""
        plan = self.plan(**spec)
        check_warm_start(self.store, self.settings, plan, self.dataset_id)
        job_id = self.store.add_job(self.dataset_id, plan.spec.model_dump())
        record = self.store.claim()
        run = self.directory / "runs" / job_id
        prepare_run(run, plan, self.dataset, warm_up=beginning(self.store, self.settings, record, plan))
        reader = Reader(run)
        reader.shutdown()
        self.store.finish(job_id, "succeeded")
        return open_state_of(run), self.store.job(job_id)["transitions"][1]["warm_start"]


def stored(dataset: Path, bias: float | None = None):
    return stored_problem(dataset, max(read_manifest(dataset).labels), bias)


def alpha_of(numbers, C: float):
    """Each row's own: 0, between 0 and C, or C."""
    return np.where(numbers % 7 == 0, C, np.where(numbers % 5 == 0, 0.0, C * (numbers % 11) / 11))


@pytest.fixture
def house(tmp_path):
    return House(tmp_path)


def check(house: House, known: set[int], bias: float | None = None, C: float = 1.0, **more) -> dict:
    """A job that begins has alpha of the rows with these numbers, 0 elsewhere, and w of it."""
    state, said = house.begin(bias=bias, C=C, **more)
    numbers = house.numbers()
    is_known = np.isin(numbers, list(known))
    expected = np.where(is_known, alpha_of(numbers, C), 0.0)
    np.testing.assert_allclose(state.alpha[:, 0], expected, rtol=1e-15)
    X, y = stored(house.dataset, bias)
    w = X.T @ (expected * y)
    assert np.linalg.norm(state.w[:, 0] - w) <= 1e-9 * np.linalg.norm(w)
    assert said == {"rows": int(is_known.sum()), "of": len(numbers)}
    return said


CHANGES = st.lists(st.tuples(st.booleans(), st.integers(2, 30)), max_size=5)


def change(house: House, changes) -> None:
    for comes, number in changes:
        if comes:
            # Of more features than before, now and then.
            house.append(house.text(number, width=30 + number))
        else:
            house.remove(number)


@settings(max_examples=12, deadline=None)
@given(CHANGES, CHANGES, st.sampled_from([None, 1.0]), st.sampled_from([0.25, 1.0, 3.0]))
def test_rows_that_are_still_there_keep_their_alpha(tmp_path_factory, before, after, bias, C):
    house = House(tmp_path_factory.mktemp("house"))
    change(house, before)
    job, had = house.end_job(bias=bias), set(house.numbers())
    change(house, after)
    if had & set(house.numbers()):
        check(house, had, bias, C, warm_start=job)
    else:
        with refused(ServiceError, "dataset_changed"):
            house.begin(bias=bias, C=C, warm_start=job)


def test_features_that_were_renumbered_keep_their_weights(tmp_path):
    house = House(tmp_path)
    house.dataset_id = house.store.add_dataset("wide")
    ingest([house.text(300, width=2 * LARGE_W)], house.dataset)
    house.store.set_dataset_ready(house.dataset_id)
    assert house.manifest.renumbered
    house.append(house.text(60))
    job, had = house.end_job(bias=2.0), set(house.numbers())
    house.append(house.text(60, width=2 * LARGE_W + 300))
    check(house, had, bias=2.0, warm_start=job)
    house.remove(0)
    check(house, had, bias=2.0, warm_start=job)


def test_w_is_made_anew_only_if_rows_have_gone(house, monkeypatch):
    made = []
    monkeypatch.setattr("streamsvm.reader.stream.process.make_w", lambda *_: made.append(True))
    house.append(house.text(10))
    job = house.end_job()
    house.begin(warm_start=job)
    house.append(house.text(10))
    house.begin(warm_start=job)
    assert not made
    house.remove(0)
    house.begin(warm_start=job)
    assert made


def test_a_label_that_has_become_the_positive_one(house):
    """Rows of 1 were the positive ones, those of 1 and 2 are told apart then."""
    house.append(house.text(20, labels=(1, 1)))
    job, had = house.end_job(), set(house.numbers())
    assert house.plan().labels == (1.0, -1.0)
    while -1.0 in house.manifest.labels:
        house.remove(0)
    house.append(house.text(10, labels=(2, 2)))
    assert house.plan().labels == (2.0, 1.0)
    check(house, had, warm_start=job)


def test_more_labels_than_two(house):
    job = house.end_job()
    house.append(house.text(10, labels=(2, 1)))
    with refused(ServiceError, "warm_start", match="more than two labels"):
        house.begin(warm_start=job)


def test_rows_that_got_weights(house):
    job = house.end_job()
    house.append(b"1:2 1:3 4:1\n-1:0.5 1:4 4:1\n")
    with refused(ServiceError, "warm_start", match="weights"):
        house.begin(warm_start=job)


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"{}")])
def test_what_a_job_that_noted_nothing_is_good_for(house, damage):
    """One of an earlier version: as long as no row has gone, the first rows are those it had."""
    job, had = house.end_job(), set(house.numbers())
    damage(house.settings.jobs / job / TRAINED_ROWS)
    check(house, had, warm_start=job)
    house.append(house.text(10))
    check(house, had, warm_start=job)
    house.remove(0)
    with refused(ServiceError, "dataset_changed"):
        house.begin(warm_start=job)
    # Trained after the last change.
    job, had = house.end_job(), set(house.numbers())
    damage(house.settings.jobs / job / TRAINED_ROWS)
    check(house, had, warm_start=job)


def test_the_checkpoint_is_lost(house):
    job = house.end_job()
    (house.settings.jobs / job / SURE_SLOTS[0]).unlink()
    with pytest.raises(ServiceError, match="no checkpoint"):
        house.begin(warm_start=job)
    plan = house.plan(warm_start=job)
    house.store.add_job(house.dataset_id, plan.spec.model_dump())
    with refused(ServiceError, "checkpoint_lost"):
        JobWork(house.settings, house.store)._start(house.store.claim(), plan)


def test_primal_solvers_begin_with_w_as_it_was(house):
    house.append(house.text(10))
    job = house.end_job()
    before, _ = house.begin(warm_start=job)
    house.append(house.text(10))
    house.remove(0)
    after, said = house.begin(warm_start=job, solver="pegasos")
    assert np.array_equal(after.w, before.w) and not after.alpha.any()
    assert 0 < said["rows"] < said["of"]


@pytest.mark.parametrize("change", [lambda house: house.append(house.text(5)), lambda house: house.remove(0)])
def test_checkpoints_of_other_rows_are_not_gone_on_from(house, change):
    house.append(house.text(10))
    job = house.end_job()
    job_dir = house.settings.jobs / job
    note_rows(job_dir, house.plan(), house.dataset, has_begun=True)
    change(house)
    with refused(ServiceError, "dataset_changed"):
        note_rows(job_dir, house.plan(), house.dataset, has_begun=True)
    note_rows(job_dir, house.plan(), house.dataset, has_begun=False)
