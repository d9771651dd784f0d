"""A disk that takes its time: the reader's reads are held up by strace. The job takes longer, and that is all."""

import shutil
import subprocess

import pytest

from tests.end_to_end.conftest import ENDLESS, weights
from tests.end_to_end.service import wait_for

SPEC = {**ENDLESS, "max_passes": 15}
DELAY_MICROSECONDS = 50_000

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


def test_slow_reads_change_nothing_but_the_time(service, tmp_path):
    undisturbed = weights(service.model(service.train(**SPEC))).tobytes()
    job = service.submit(**SPEC)
    service.wait_for_pass(job, 2)
    trace = tmp_path / "trace"
    reads = ["-e", "trace=pread64", "-e", f"inject=pread64:delay_enter={DELAY_MICROSECONDS}"]
    reader = str(service.processes.one("streamsvm.reader.stream.process"))
    with subprocess.Popen(["strace", "-f", "-qq", "-o", str(trace), *reads, "-p", reader]) as strace:
        wait_for(lambda: strace.poll() is not None or (trace.exists() and trace.stat().st_size))
        if strace.poll() is not None and service.job(job)["state"] == "running":
            pytest.skip("may not trace processes")
        ended = service.wait_until_ended(job)
    assert "(DELAYED)" in trace.read_text()
    assert ended["attempt"] == 1
    assert weights(service.model(ended)).tobytes() == undisturbed
