"""Newton steps hold no more than what is planned for them, and no system is larger than it may be."""

import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse

from streamsvm.storage.features.visits import UNMAPPED
from streamsvm.storage.rows.csr import INDEX, VALUE
from streamsvm.storage.rows.segment import CODE, NO_COLUMN, NORM, OFFSET, ROW_ID, Segment
from streamsvm.trainer.newton.memory import ProblemShape as Shape
from streamsvm.trainer.newton.memory import bytes_held, equations_within
from streamsvm.trainer.newton.own_rows import OwnRows
from streamsvm.trainer.newton.run import NewtonSteps
from streamsvm.trainer.newton.scans import Scans
from streamsvm.trainer.newton.system import LARGEST, TooLarge
from streamsvm.trainer.problem.tasks import Task, Tasks
from streamsvm.trainer.sweeps.sweep import ALONE

PER_SEGMENT = 1000


@dataclass
class InMemory:
    """Random rows of two classes, as segments."""

    rows: int
    features: int
    density: float
    n_bytes = 0  # one thread scans them

    def __post_init__(self):
        rng = np.random.default_rng(self.rows)
        X = sparse.random_array((self.rows, self.features), density=self.density, format="csr", rng=rng)
        X.data -= 0.5
        negative = (X @ rng.standard_normal(self.features) + 0.5 * rng.standard_normal(self.rows) < 0).astype(CODE)
        self.values = X.nnz / self.rows
        self.segments = []
        for begin in range(0, self.rows, PER_SEGMENT):
            part, code = X[begin : begin + PER_SEGMENT], negative[begin : begin + PER_SEGMENT]
            row_id = np.arange(begin, begin + len(code), dtype=ROW_ID)
            Qii = part.multiply(part).sum(axis=1).astype(NORM)
            columns = part.indptr.astype(OFFSET), part.indices.astype(INDEX), part.data.astype(VALUE)
            self.segments.append(
                Segment(row_id, code, np.zeros(len(code), CODE), Qii, *columns, NO_COLUMN, NO_COLUMN)
            )  # fmt: skip

    def in_order(self):
        return iter(self.segments)


def steps(store, n_tasks, most=LARGEST):
    """Steps of tasks of ever larger C."""
    tasks = Tasks("hinge", tuple(Task(0, None, 0.1 * 4**k, 0.1 * 4**k) for k in range(n_tasks)), (1.0, -1.0), 1, 1, 0.1)
    alpha, w = np.zeros((store.rows, tasks.width)), np.zeros((store.features, tasks.width))
    scans = Scans(store, store.rows, UNMAPPED, ALONE, lambda segments: segments)

    def begin():
        rows = OwnRows(tasks, scans, alpha, len(w))
        return NewtonSteps(tasks, rows, w, list(range(n_tasks)), lambda _, gap: gap <= 1e-5, most)

    return begin


def to_the_end(found):
    """The steps when all tasks have ended."""
    while found.active:
        found.step()
    return found


@pytest.mark.parametrize(
    ("rows", "features", "density", "n_tasks"),
    [(50_000, 10, 1.0, 1), (4000, 200, 0.5, 2), (20_000, 200, 0.02, 1), (600, 20_000, 0.002, 2)],
)
def test_no_more_is_held_than_planned(rows, features, density, n_tasks):
    store = InMemory(rows, features, density)
    shape = Shape(rows, features, n_tasks, 0, store.values, 1)
    planned, make = bytes_held(shape, shape.most_equations), steps(store, n_tasks)
    to_the_end(steps(InMemory(50, min(features, 200), density), n_tasks)())  # kernels are loaded
    tracemalloc.start()
    try:
        found = to_the_end(make())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(task.is_done for task in found.each.values())
    assert 0.25 * planned < peak <= planned


def test_a_system_has_no_more_equations_than_it_may():
    store = InMemory(600, 20_000, 0.002)
    found = steps(store, 3, most=100)()
    with pytest.raises(TooLarge):
        to_the_end(found)


@pytest.mark.parametrize("shape", [Shape(10**6, 10**6, 4, 1, 50.0, 2), Shape(10**6, 5000, 1, 0, 20.0, 2)], ids=str)
def test_equations_that_a_number_of_bytes_allows(shape):
    needed = bytes_held(shape, shape.most_equations)
    assert equations_within(needed, shape) == LARGEST
    assert equations_within(bytes_held(shape, 0) - 1, shape) == 0
    some = equations_within(needed // 2, shape)
    assert bytes_held(shape, some) <= needed // 2 < bytes_held(shape, some + 1)
