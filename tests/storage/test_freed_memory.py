"""keep_freed_memory lets a process reuse freed memory: the kernel counts fewer page faults."""

import platform
import subprocess
import sys

import pytest

STEPS, SIZE, COUNT = 50, 1 << 18, 12
PROGRAM = f"""
import resource
from streamsvm.storage.machine.child import keep_freed_memory
if {{keeps}}:
    keep_freed_memory()
def step():
    parts = [b"x" * {SIZE} for _ in range({COUNT})]
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({STEPS}):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(keeps):
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(keeps=keeps)], capture_output=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_freed_memory_is_used_again():
    pages = STEPS * COUNT * SIZE // 4096
    assert faults(keeps=False) > 0.3 * pages
    assert faults(keeps=True) < 0.05 * pages
