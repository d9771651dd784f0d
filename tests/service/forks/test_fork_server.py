"""Processes that are forked behave as those that are started: output, exit codes, signals; no orphans."""

import errno
import os
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from streamsvm.service.forks import fork_server as forks
from streamsvm.service.forks.fork_server import ForkServer, close_fork_server, fork, fork_server
from tests.end_to_end.service import is_running, wait_for

TASKS = "tests.service.forked"
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def server():
    made = ForkServer()
    yield made
    made.close()


@pytest.fixture
def start(server, tmp_path):
    """Have a task done; (process, its run directory)."""

    def start_task(task: str, name: str = "run", by=None):
        run = tmp_path / name
        run.mkdir()
        (run / "task").write_text(task)
        (run / "in").write_text("in")
        with (run / "in").open("rb") as input_, (run / "out").open("wb") as out, (run / "log").open("wb") as log:
            return (by or server.fork)([TASKS, str(run)], [input_.fileno(), out.fileno(), log.fileno()]), run

    return start_task


def began(run: Path) -> list[int]:
    """Its pid, its parent's and its session's, once it runs."""
    file = run / "began"
    return list(map(int, wait_for(lambda: file.exists() and file.read_text()).split()))


def n_open() -> int:
    """Descriptors of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_output_goes_where_it_is_wanted(start):
    process, run = start("print")
    process.wait()
    assert process.poll() == 0
    assert ((run / "out").read_text(), (run / "log").read_text()) == ("in\n", "err\n")


def test_environment_and_working_directory_are_those_of_the_moment(start, tmp_path, monkeypatch):
    """Also after the server has started: credentials that a notebook sets between two calls are found."""
    for name, value in (("a", "1"), ("b", "2"), ("c", None)):
        (tmp_path / f"in-{name}").mkdir()
        monkeypatch.chdir(tmp_path / f"in-{name}")
        if value is None:
            monkeypatch.delenv("TESTED")
        else:
            monkeypatch.setenv("TESTED", value)
        process, run = start("surroundings", name)
        process.wait()
        assert (run / "out").read_text() == f"{tmp_path}/in-{name} {value}\n"


def test_an_environment_that_is_too_large_is_an_error_of_this_process(start, monkeypatch):
    monkeypatch.setenv("TESTED", "x" * (1 << 17))
    with pytest.raises(OSError, match="too long"):
        start("exit", "a")
    monkeypatch.delenv("TESTED")
    assert wait_for(start("exit", "b")[0].poll) == 7


def test_an_exception_is_told_and_counts(start):
    process, run = start("fail")
    process.wait()
    assert process.poll() == 1
    assert "ValueError: no such thing" in (run / "log").read_text()


def test_a_running_process_can_be_killed(start):
    process, run = start("sleep")
    pid, _, session = began(run)
    assert process.poll() is None
    assert (pid, session) == (process.pid, process.pid)
    command = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()
    assert command == f"{sys.executable} -m {TASKS} {run}"
    process.kill()
    process.wait()
    assert process.poll() == -signal.SIGKILL
    assert not is_running(pid)
    process.kill()  # and again: nothing


def test_without_a_descriptor_for_it_there_is_no_process(start, server, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = [os.dup(0) for _ in range(5)]  # another thread that waits in `accept` has one that no list shows
    for descriptor in free:
        os.close(descriptor)
    try:
        # Enough for its files and its working directory, and none for itself.
        resource.setrlimit(resource.RLIMIT_NOFILE, (free[-1], limits[1]))
        with pytest.raises(OSError, match="open files"):
            start("sleep", "a")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    process, _ = start("exit", "b")
    assert wait_for(process.poll) == 7


def test_one_whose_descriptor_is_beyond_what_select_takes(start):
    """A service with a thousand connections has such descriptors."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limits[1], 4096), limits[1]))
    with ExitStack() as held:
        for _ in range(1100):
            held.enter_context(Path(os.devnull).open("rb"))
        process, _ = start("exit")
        with process:
            with pytest.raises(subprocess.TimeoutExpired):
                start("sleep", "b")[0].wait(0)
            assert process.wait(60) == 7
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_what_is_left_has_no_descriptor_and_keeps_its_exit_code(start):
    ended, _ = start("exit", "a")
    running, run = start("sleep", "b")
    began(run)
    before = n_open()
    with ended, running:
        running.kill()
    assert n_open() == before - 2
    assert (ended.poll(), running.poll()) == (7, -signal.SIGKILL)
    with running:  # once more: nothing
        running.kill()
    other, _ = start("exit", "c")
    with other:
        other.wait()
    assert other.poll() == 7


@pytest.mark.parametrize("limit", ["NOFILE", "NPROC"])
def test_a_server_that_cannot_fork_says_so_and_lives_on(tmp_path, start, limit):
    """What runs goes on, and the next one is forked once there is room again."""
    if limit == "NPROC" and os.geteuid() == 0:
        pytest.skip("root has no limit of processes")
    own, number = ForkServer(), getattr(resource, f"RLIMIT_{limit}")
    running, run = start("sleep", "running", own.fork)
    began(run)
    before = resource.prlimit(own.pid, number)
    resource.prlimit(own.pid, number, (3, before[1]))
    with pytest.raises(OSError) as caught:
        start("exit", "refused", own.fork)
    assert caught.value.errno in (errno.EMFILE, errno.EAGAIN)
    resource.prlimit(own.pid, number, before)
    again, _ = start("exit", "again", own.fork)
    assert wait_for(again.poll) == 7
    assert running.poll() is None
    with again, running:
        running.kill()
    own.close()


def test_a_module_that_cannot_be_loaded_leaves_the_server_as_it_is(start, server):
    server.load("tests.nothing")
    assert start("exit")[0].wait() == 7


def test_what_was_forked_dies_with_the_server_and_another_takes_its_place(start):
    close_fork_server()  # one of a test before may have begun elsewhere, where there are no tests to import
    process, run = start("sleep", "a", fork)
    pid, server_pid, _ = began(run)
    os.kill(server_pid, signal.SIGKILL)
    wait_for(lambda: not is_running(pid))
    assert process.poll() == -signal.SIGKILL
    process.kill()
    process.wait()
    again, _ = start("exit", "b", fork)
    again.wait()
    assert again.poll() == 7
    assert process.poll() == -signal.SIGKILL
    assert fork_server() is fork_server()


def test_one_that_answers_no_more_is_not_alive_though_its_process_is_still_ending():
    server = ForkServer(lambda *_: subprocess.Popen(["sleep", "60"]))
    with pytest.raises(ConnectionError):
        server.fork([TASKS, "."], [0, 1, 2])
    assert not server.is_alive()
    server.close()


def test_all_die_with_the_process_that_started_them(tmp_path):
    (tmp_path / "task").write_text("sleep")
    program = (
        "import sys, time; from streamsvm.service.forks.fork_server import fork\n"
        f"fork([{TASKS!r}, sys.argv[1]], [0, 1, 2]); time.sleep(60)"
    )
    starter = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, stdout=subprocess.DEVNULL)
    pid, server_pid, _ = began(tmp_path)
    starter.kill()
    starter.wait()
    wait_for(lambda: not is_running(pid) and not is_running(server_pid))


# Ignores SIGTERM itself; its fork server is a fork of it.
LOADED = f"""
import signal, sys
from streamsvm.service.forks.fork_server import fork, fork_server
from streamsvm.service.forks.forking import LoadedServer, serve_here
signal.signal(signal.SIGTERM, signal.SIG_IGN)
serve_here()
assert isinstance(fork_server()._process, LoadedServer)
sys.exit(fork([{TASKS!r}, sys.argv[1]], [0, 1, 2]).wait())
"""


def start_loaded(directory: Path, task: str) -> subprocess.Popen:
    (directory / "task").write_text(task)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", LOADED, str(directory)], cwd=ROOT, env=environment)


def test_a_server_that_is_a_fork_of_its_process_forks_as_any_other(tmp_path):
    assert start_loaded(tmp_path, "exit").wait() == 7


def test_a_server_that_is_a_fork_of_its_process_dies_with_it_and_before_it(tmp_path):
    """Before it where memory is lacking: a job that does not fit ends its own process, not the worker."""
    starter = start_loaded(tmp_path, "sleep")
    pid, server_pid, session = began(tmp_path)
    assert len({pid, server_pid, starter.pid}) == 3 and session == pid
    scores = [int(Path(f"/proc/{each}/oom_score_adj").read_text()) for each in (starter.pid, server_pid, pid)]
    assert scores[0] < scores[1] < scores[2]
    starter.kill()
    starter.wait()
    wait_for(lambda: not is_running(pid) and not is_running(server_pid))


def test_signals_that_a_process_ignores_end_what_its_server_forks(tmp_path):
    starter = start_loaded(tmp_path, "sleep")
    os.kill(began(tmp_path)[0], signal.SIGTERM)
    assert starter.wait() == 256 - signal.SIGTERM


def of_another_thread() -> ForkServer:
    """The server that a thread finds which has ended meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(fork_server).result()


def test_a_server_is_that_of_the_process_whichever_thread_has_started_it():
    close_fork_server()
    own = of_another_thread()
    assert own.is_alive() and fork_server() is of_another_thread() is own
    os.kill(own.pid, signal.SIGKILL)
    wait_for(lambda: not own.is_alive())
    assert of_another_thread() is not own


def test_threads_that_fork_at_once_each_get_their_own_process(start, server):
    def run(task, name):
        process, _ = start(task, name)
        with process:
            process.wait()
            return process.poll()

    tasks = {f"{task}{number}": task for number in range(8) for task in ("exit", "print", "return")}
    with ThreadPoolExecutor(len(tasks)) as pool:
        ended = dict(zip(tasks, pool.map(run, tasks.values(), tasks), strict=True))
    assert ended == {name: {"exit": 7, "print": 0, "return": 8}[task] for name, task in tasks.items()}


def test_a_process_that_is_forked_leaves_that_of_its_parent_alone():
    own = fork_server()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if forks._server is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert own.is_alive() and fork_server() is own
