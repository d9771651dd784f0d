"""A pool for iterators: closing one waits for nobody."""

from threading import Event, active_count

from streamsvm.storage.machine.thread_work import pool_of


def test_an_iterator_that_is_closed_waits_for_no_task_and_cancels_those_that_have_not_begun():
    has_begun, may_end, tasks = Event(), Event(), []

    def results():
        with pool_of(1) as pool:
            tasks.extend([pool.submit(lambda: (has_begun.set(), may_end.wait(60.0))), pool.submit(int)])
            yield has_begun.wait(60.0)

    iterator = results()
    assert next(iterator)
    iterator.close()
    running, waiting = tasks
    assert waiting.cancelled()
    assert not running.done()
    may_end.set()
    assert running.result(60.0)


def test_one_that_comes_to_its_end_leaves_no_thread():
    before = active_count()
    with pool_of(2) as pool:
        assert pool.submit(int).result() == 0
    assert active_count() == before
