"""Work that runs ahead gives what it would give in turn."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from streamsvm.reader.stream.piece_sources import Shuffled, Streamer
from streamsvm.storage.blocks.block import Piece
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.machine.disk_health import DiskHealth
from streamsvm.storage.machine.thread_work import work_ahead
from streamsvm.storage.rows.csr import Rows
from streamsvm.trainer.problem.row_encoder import RowEncoder
from tests.contracts.problems import make_dataset, random_problem
from tests.features import constant

DEPTH = 3


class ByHand:
    """An executor whose tasks run when their results are asked for."""

    def __init__(self) -> None:
        self.begun = 0

    def submit(self, task) -> Future:
        self.begun += 1
        return _Lazy(task)


class _Lazy(Future):
    def __init__(self, task) -> None:
        super().__init__()
        self._task = task

    def result(self, timeout=None):
        return self._task()


def numbered(count):
    return [partial(int, number) for number in range(count)]


def never():
    raise AssertionError("there was something to do")


@pytest.mark.parametrize("count", [0, 1, DEPTH, DEPTH + 1, 20])
def test_order_is_kept_and_so_is_the_depth(count):
    pool = ByHand()
    results = work_ahead(numbered(count), pool, DEPTH, never)
    for asked in range(1, count + 1):
        assert next(results) == asked - 1
        assert pool.begun == min(count, asked + DEPTH)
    assert list(results) == []


def test_order_is_kept_whoever_is_done_first():
    """Of two threads, the one with the first task waits for the other's second."""
    done = [Future() for _ in range(10)]

    def task(number):
        if number % 2 == 0:
            done[number + 1].result(10)
        done[number].set_result(None)
        return number

    with ThreadPoolExecutor(2) as pool:
        tasks = [partial(task, number) for number in range(10)]
        assert list(work_ahead(tasks, pool, 4, never)) == list(range(10))


def test_one_waits_only_when_nothing_else_is_to_be_done():
    pool, waits = ByHand(), []
    given = []
    zero, one, two, three = numbered(4)
    tasks = [None, zero, one, None, None, None, two, None, None, three]
    for result in work_ahead(tasks, pool, DEPTH, lambda: waits.append(list(given))):
        given.append(result)
    assert given == [0, 1, 2, 3]
    # Before the first, when the first two were given out, and when the third was.
    assert waits == [[], [0, 1], [0, 1, 2]]


def test_an_error_comes_in_its_turn():
    with ThreadPoolExecutor(2) as pool:
        results = work_ahead([*numbered(2), partial(int, "x"), *numbered(2)], pool, DEPTH, never)
        assert [next(results), next(results)] == [0, 1]
        with pytest.raises(ValueError, match="x"):
            next(results)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """A dataset of many pieces."""
    return Dataset(make_dataset(tmp_path_factory.mktemp("data") / "data", *random_problem(8000, 300, 40)))


def streamed(dataset, threads, bias=None, pass_=2):
    streamer = Streamer(RowEncoder([1.0], maps=constant(dataset.manifest.width, bias)), never)
    stream = streamer.stream(Shuffled(dataset), 5, pass_, lambda rows: float(rows.Qii.sum()), threads)
    found = []
    for one in stream:
        columns = b"".join(np.ascontiguousarray(column).tobytes() for column in vars(one.rows).values())
        found.append((one.blocks_begun, one.read_bytes, columns, one.result))
    return found


@pytest.mark.parametrize("bias", [None, 0.5])
def test_threads_change_nothing(dataset, bias):
    alone = streamed(dataset, 0, bias)
    assert len(alone) > 3
    assert streamed(dataset, 3, bias) == alone
    # The order is that of the pass.
    assert streamed(dataset, 3, bias, pass_=3) != alone
    assert sorted(piece[1:] for piece in streamed(dataset, 3, bias, pass_=3)) == sorted(piece[1:] for piece in alone)


def test_targets_are_signs_or_the_labels_themselves():
    rows = Rows(np.array([2.5, -1e3, 0.1]), np.zeros(4, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
    piece = Piece(rows, np.zeros(3), 7)
    for bias in (None, 0.5):
        assert RowEncoder([2.5], maps=constant(8, bias)).encode(piece).class_code.tolist() == [0, 1, 1]
        targets = RowEncoder(is_regression=True, maps=constant(8, bias)).encode(piece).target
        assert targets.tolist() == [2.5, -1e3, np.float32(0.1)]


def test_a_stream_that_is_given_up_ends_its_threads(dataset):
    before = threading.active_count()
    streamer = Streamer(RowEncoder([1.0]), never)
    stream = streamer.stream(Shuffled(dataset), 0, 1, len, threads=3)
    next(stream)
    assert threading.active_count() > before
    stream.close()
    assert threading.active_count() == before


def test_a_disk_that_gives_pieces_late_is_called_slow(dataset):
    source, streamer, now = Shuffled(dataset), Streamer(RowEncoder([1.0]), never), [0.0]
    streamer.health = DiskHealth(".", clock=lambda: now[0])
    fetch = source.fetch
    for seconds, is_slow in ((0.0, False), (1.0, True)):
        source.fetch = lambda location, late=seconds: (now.__setitem__(0, now[0] + late), fetch(location))[1]
        list(streamer.stream(source, 5, 1, len, threads=1))
        assert streamer.health.is_too_slow is is_slow
