"""Reader and trainer as the processes they are."""

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from streamsvm.reader.ingest.append import append_rows
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.stream.process import Reader
from streamsvm.storage.run.state import open_state
from tests.contracts.problems import a_dataset, libsvm_text, make_dataset, random_problem
from tests.contracts.solver import SMALLEST_CACHE
from tests.end_to_end.service import is_running
from tests.training import AHEAD, CLOCKS, Outcome, train, write_run

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT = 60

dataset = a_dataset(600)


def run_processes(run: Path, dataset: Path, **settings) -> Outcome:
    write_run(run, dataset, SMALLEST_CACHE, **settings)
    command = [sys.executable, "-m"]
    reader = subprocess.Popen([*command, "streamsvm.reader.stream.process", str(run)], cwd=ROOT, stderr=subprocess.PIPE)
    trainer = subprocess.Popen(
        [*command, "streamsvm.trainer.process", str(run)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        output, errors = trainer.communicate(timeout=TIMEOUT)
        assert trainer.returncode == 0, errors
        _, errors = reader.communicate(timeout=TIMEOUT)
        assert reader.returncode == 0, errors
    finally:
        for process in (reader, trainer):
            process.kill()
            process.communicate()
    *passes, last = [json.loads(line) for line in output.splitlines()]
    chosen = json.loads((run / "run.json").read_text())["trainer"]
    return Outcome(passes, last["result"], open_state(run, chosen["n_rows"], chosen["width"]))


@pytest.mark.parametrize("solver", ["streamsvm", "streamsvm_paper"])
def test_two_processes_do_what_one_does_to_the_bit(tmp_path, dataset, solver):
    settings = {"solver": solver, "max_passes": 5, "tolerance": None}
    apart = run_processes(tmp_path / "apart", dataset, **settings)
    together = train(tmp_path / "together", dataset, SMALLEST_CACHE, **settings)
    assert apart.w.tobytes() == together.w.tobytes()
    assert apart.alpha.tobytes() == together.alpha.tobytes()
    assert apart.result == together.result
    for one, other in zip(apart.passes, together.passes, strict=True):
        assert one.keys() == other.keys()
        same = one.keys() - CLOCKS - AHEAD
        assert {name: one[name] for name in same} == {name: other[name] for name in same}


@pytest.mark.parametrize("module", ["streamsvm.reader.stream.process", "streamsvm.trainer.process"])
def test_processes_die_with_their_parent(tmp_path, dataset, module):
    write_run(tmp_path / "run", dataset, SMALLEST_CACHE)
    program = (
        "import subprocess, sys, time; from streamsvm.storage.machine.child import child_environment\n"
        f"child = subprocess.Popen([sys.executable, '-m', {module!r}, sys.argv[1]], env=child_environment())\n"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "run")], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    child = int(parent.stdout.readline())
    heartbeat = module.split(".")[1] + "_heartbeat"
    width = json.loads((tmp_path / "run" / "run.json").read_text())["trainer"]["width"]
    control = open_state(tmp_path / "run", 600, width).control
    _await(lambda: control[heartbeat] > 0)
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    _await(lambda: not is_running(child))


def _await(condition) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("n_blocks", [1, 3])
def test_a_reader_that_is_shut_down_ends_its_threads(tmp_path, n_blocks):
    """In the middle of a pass: its stream is not left to the garbage collector. A single piece needs no threads."""
    before, data = threading.active_count(), make_dataset(tmp_path / "data", *random_problem(600))
    for _ in range(1, n_blocks):
        append_rows([libsvm_text(*random_problem(600))], data, InputOptions(index_base=1), InputLimits(), threads=1)
    write_run(tmp_path / "run", data, SMALLEST_CACHE)
    reader = Reader(tmp_path / "run")
    assert reader.step()
    assert (threading.active_count() > before) == (n_blocks > 1)
    reader.shutdown()
    assert threading.active_count() == before
