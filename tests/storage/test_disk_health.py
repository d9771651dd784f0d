"""A job gives up a disk that is slow or full: tables of cases, with a clock that tests set."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from streamsvm.storage.machine.disk_health import DiskHealth

SEGMENT = 1 << 19  # bytes: 2.6 ms at 200 MB/s


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def pass_(self, seconds):
        self.now += seconds


def after(works, free=1 << 40):
    """The health of a disk after work on segments that took these seconds."""
    clock = Clock()
    health = DiskHealth("/", lambda _: free, clock)
    for seconds in works:
        assert health.timed(SEGMENT, 1, lambda seconds=seconds: clock.pass_(seconds) or "done") == "done"
    return health


@pytest.mark.parametrize(
    ("works", "is_too_slow"),
    [
        ([], False),
        ([0.001] * 10_000, False),
        ([3.0], False),  # a pause of three seconds
        ([4.0], True),
        ([2.0, *[0.0005] * 5000, 2.0], False),  # fast work brings it back
        ([2.0, *[0.0026] * 5, 2.0], True),  # just fast enough work does not
        ([0.004] * 100, False),  # somewhat slow, for half a second
        ([0.010] * 1000, True),
        ([0.0032] * 100_000, False),  # a fifth of the time may be lost for ever
        ([0.0034] * 100_000, True),
    ],
)
def test_a_slow_disk_is_used_for_a_while(works, is_too_slow):
    assert after(works).is_too_slow == is_too_slow


@pytest.mark.parametrize(("at_once", "is_too_slow"), [(1, True), (2, False)])
def test_parallel_work_shares_its_time(at_once, is_too_slow):
    clock = Clock()
    health = DiskHealth("/", clock=clock)
    for _ in range(10_000):
        health.timed(SEGMENT, at_once, lambda: clock.pass_(0.005))
    assert health.is_too_slow == is_too_slow


def test_time_without_work_on_the_disk_is_not_lost():
    clock = Clock()
    health = DiskHealth("/", clock=clock)
    clock.pass_(1e6)
    assert not health.is_too_slow
    health.timed(SEGMENT, 1, lambda: clock.pass_(2e5))
    assert not health.is_too_slow  # a sixth of the time so far


@pytest.mark.parametrize(
    ("free", "taken", "more", "allows"),
    [
        (100, 0, 50, True),
        (99, 0, 50, False),
        (200, 60, 40, True),
        (199, 60, 40, False),
        (60, 60, 40, False),
        (1 << 50, 1 << 40, 1 << 20, True),
    ],
)
def test_it_grows_while_free_space_is_twice_its_size(free, taken, more, allows):
    assert after([], free).allows(taken, more) == allows


@pytest.mark.parametrize(("free", "taken"), [(59, 60), (0, 1)])
def test_it_raises_when_free_space_is_below_its_size(free, taken):
    with pytest.raises(OSError, match="others need the disk"):
        after([], free).allows(taken, 1)


def test_several_threads_count_every_second():
    """The clock stands still: each call loses the 5 ms that -1 MB of work adds."""
    clock = Clock()
    health = DiskHealth("/", clock=clock)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: health.timed(-(10**6), 1, lambda: None), range(600)))
    # 600 times 5 ms: exactly the 3 seconds that may be lost.
    assert not health.is_too_slow
    health.timed(-(10**6), 1, lambda: None)
    assert health.is_too_slow
