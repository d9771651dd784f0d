"""A pool for iterators waits for nobody at its end."""

from threading import Event

from streamsvm.storage.machine.pools import pool_of


def test_its_end_waits_for_no_task_and_cancels_those_that_have_not_begun():
    has_begun, may_end = Event(), Event()
    with pool_of(1) as pool:
        running = pool.submit(lambda: (has_begun.set(), may_end.wait(60.0)))
        waiting = pool.submit(int)
        assert has_begun.wait(60.0)
    assert waiting.cancelled()
    assert not running.done()
    may_end.set()
    assert running.result(60.0)
