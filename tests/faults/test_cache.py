"""The cache is disposable, and a disk may be slow: that costs an attempt, or time, never the model.

The reader's reads are held up by strace.
"""

import os
import shutil
import subprocess

import pytest

from tests.end_to_end.conftest import ENDLESS, weights
from tests.end_to_end.service import wait_for

SPEC = {**ENDLESS, "max_passes": 15}
DELAY_MICROSECONDS = 50_000


def lost_tail(run):
    """Reading beyond the end of a mapped file kills a process by signal 7."""
    os.truncate(run / "cache", 1 << 14)


def zeros(run):
    with (run / "cache").open("r+b") as file:
        file.write(bytes((run / "cache").stat().st_size))


def files_gone(run):
    for path in run.glob("cache*"):
        path.unlink()


@pytest.fixture(scope="module")
def undisturbed(service):
    return weights(service.model(service.wait_until_ended(service.submit(**SPEC)))).tobytes()


@pytest.mark.parametrize("happens", [files_gone, lost_tail, zeros], ids=lambda f: f.__name__)
def test_the_model_is_the_same(service, undisturbed, happens):
    job = service.submit(**SPEC)
    service.wait_for_pass(job, 4)
    (run,) = service.cache_dir.iterdir()
    happens(run)
    ended = service.wait_until_ended(job)
    assert weights(service.model(ended)).tobytes() == undisturbed
    # Who has a file open does not need its name.
    assert ended["attempt"] == (1 if happens is files_gone else 2)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_slow_reads_change_nothing_but_the_time(service, undisturbed, tmp_path):
    job = service.submit(**SPEC)
    service.wait_for_pass(job, 2)
    trace = tmp_path / "trace"
    reads = ["-e", "trace=pread64", "-e", f"inject=pread64:delay_enter={DELAY_MICROSECONDS}"]
    reader = str(service.processes.one("streamsvm.reader.stream.process"))
    with subprocess.Popen(
        ["strace", "-f", "-qq", "-o", str(trace), *reads, "-p", reader], stderr=subprocess.PIPE, text=True
    ) as strace:
        wait_for(lambda: strace.poll() is not None or (trace.exists() and trace.stat().st_size))
        if strace.poll() is not None and "not permitted" in strace.stderr.read():
            pytest.skip("may not trace processes")
        ended = service.wait_until_ended(job)
    assert "(DELAYED)" in trace.read_text()
    assert ended["attempt"] == 1
    assert weights(service.model(ended)).tobytes() == undisturbed
