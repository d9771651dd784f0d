"""Work over very many names is done by one thread at a time, and keeps no smaller work waiting."""

from threading import Event, Thread

import pytest

from streamsvm.storage.machine.abandoned_work import Unwanted, wanted_until
from streamsvm.storage.machine.long_work import LARGE_BYTES, one_at_a_time


def test_large_work_waits_for_large_work(threads):
    began, ended = Event(), Event()

    def work():
        with one_at_a_time(LARGE_BYTES):
            began.set()
            assert ended.is_set()

    with one_at_a_time(LARGE_BYTES):
        worker = threads(work)
        assert not began.wait(0.05)
        ended.set()
    worker.join()
    assert began.is_set()


def test_small_work_waits_for_none():
    with one_at_a_time(LARGE_BYTES), one_at_a_time(LARGE_BYTES - 1):
        pass


def test_who_leaves_waits_no_longer(threads):
    unwanted, left = Event(), Event()

    def work():
        with wanted_until(unwanted), pytest.raises(Unwanted), one_at_a_time(LARGE_BYTES):
            pass
        left.set()

    with one_at_a_time(LARGE_BYTES):
        worker = threads(work)
        unwanted.set()
        assert left.wait(30)
    worker.join()


@pytest.fixture
def threads():
    def start(work):
        thread = Thread(target=work, daemon=True)
        thread.start()
        return thread

    return start
