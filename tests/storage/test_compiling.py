"""The time for which a process compiles kernels is measured, told on the control page, and no time of training."""

import time
from threading import Thread

import numba
import pytest

from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.progress.progress import _phase, progress
from streamsvm.service.processes.run import ProcessRun
from streamsvm.storage.machine.compiling import COMPILE_TIME, CompileTime
from streamsvm.storage.run.state import compile_seconds, create_state, telling_compiling
from streamsvm.trainer.newton.scans import Interrupted, go_on
from streamsvm.trainer.shared_state import SharedState
from streamsvm.trainer.updates.limits import Elapsed, JobLimits

LANE = {"number": 0, "count": 1, "of": 1, "class": 1.0, "C": 1.0}


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def new_control(tmp_path):
    return create_state(tmp_path, 1, 1).control


def test_seconds_of_a_kernel_have_those_of_the_kernels_that_it_calls(clock):
    measured, told = CompileTime(clock), []
    measured.tell = told.append
    measured.begin()
    clock.now += 2.0
    measured.begin()
    clock.now += 3.0
    assert measured.seconds == 5.0
    measured.end()
    clock.now += 1.0
    measured.end()
    clock.now += 10.0
    assert measured.seconds == 6.0 and told == [100.0, 0.0]


def test_a_kernel_is_measured_in_any_thread_and_what_is_compiled_already_is_not():
    before, told = COMPILE_TIME.seconds, []
    kernel = numba.njit(lambda x: x + 1)
    COMPILE_TIME.tell = told.append
    try:
        thread = Thread(target=kernel, args=(1,))
        thread.start()
        thread.join()
        compiled = COMPILE_TIME.seconds
        kernel(2)
    finally:
        COMPILE_TIME.tell = lambda _since: None
    assert before < compiled == COMPILE_TIME.seconds
    assert len(told) == 2 and told[0] > 0.0 == told[1]


@pytest.mark.parametrize("process", ["reader", "trainer"])
def test_the_control_page_says_who_compiles_and_for_how_long(tmp_path, process):
    control = new_control(tmp_path)
    control["committed_step"] = 1
    with telling_compiling(tmp_path, process):
        COMPILE_TIME.begin()
        try:
            assert _phase(control) == "compiling" and compile_seconds(control, process) > 0.0
        finally:
            COMPILE_TIME.end()
    assert _phase(control) == "training"
    shown = progress(control, LANE, parse_spec({"dataset": "d"}), 1, [])
    assert 0.0 < shown["compile_seconds"] == compile_seconds(control, process) < 10.0


@pytest.mark.parametrize("process", ["reader", "trainer"])
def test_a_process_that_compiles_is_not_silent(tmp_path, process):
    control, run = new_control(tmp_path), object.__new__(ProcessRun)
    run.control, run._started = control, -1e9
    control[f"{process}_heartbeat"] = time.monotonic() - 300.0
    assert run._silence(process) >= 300.0
    control[f"{process}_compiles_since"] = time.monotonic() - 300.0  # on a machine that others keep busy
    assert run._silence(process) < 0.0
    control[f"{process}_compiles_since"] = time.monotonic() - 1e5
    assert run._silence(process) >= 300.0


def test_a_trainer_may_say_for_how_long_it_will_be_silent(tmp_path):
    """While LAPACK works no thread of the process can give a sign of life."""
    state = create_state(tmp_path, 1, 1)
    shared, run = SharedState(state, deferred=False), object.__new__(ProcessRun)
    run.control, run._started = state.control, -1e9
    shared.beat()
    go_on(shared, 100.0)
    assert -100.0 <= run._silence("trainer") < -90.0
    shared.beat()
    assert 0.0 <= run._silence("trainer") < 10.0
    state.control["stop"] = 1
    with pytest.raises(Interrupted):
        go_on(shared, 100.0)


def test_the_time_of_a_job_stands_still_while_the_trainer_compiles(tmp_path, clock):
    control, measured = new_control(tmp_path), CompileTime(clock)
    control["elapsed_seconds"] = 7.0  # of the attempt before
    elapsed = Elapsed(control, clock, lambda: measured.seconds)
    clock.now += 1.0
    measured.begin()
    clock.now += 50.0
    assert elapsed.seconds == 8.0
    measured.end()
    clock.now += 2.0
    assert elapsed.seconds == 10.0


def test_the_time_of_a_job_stands_still_while_the_trainer_waits_for_a_reader_that_compiles(tmp_path, clock):
    control = new_control(tmp_path)
    elapsed = Elapsed(control, clock, lambda: 0.0)
    control["reader_compile_seconds"] = 30.0  # while the trainer was at work
    clock.now += 1.0
    with elapsed.waiting():
        control["reader_compile_seconds"] = 80.0
        clock.now += 52.0
        assert elapsed.seconds == 3.0
    assert elapsed.seconds == 3.0
    control["reader_compile_seconds"] = 90.0
    clock.now += 10.0
    assert elapsed.seconds == 13.0


def test_no_job_is_late_because_it_compiles(tmp_path, clock):
    """A job of two seconds whose kernels took 51 seconds was over before its first sweep."""
    state = create_state(tmp_path, 1, 1)
    shared = SharedState(state, deferred=False, clock=clock)
    limits = JobLimits(state.control, lambda: shared.elapsed_seconds, 2.0, first_is_whole=False, clock=clock)
    now = COMPILE_TIME._clock
    COMPILE_TIME._clock = clock
    try:
        COMPILE_TIME.begin()
        clock.now += 51.0
        assert limits.reason is None and not limits.has_passed
        COMPILE_TIME.end()
        clock.now += 1.0
        assert limits.reason is None
        clock.now += 1.5
        assert limits.reason == "max_seconds"
    finally:
        COMPILE_TIME._clock = now
