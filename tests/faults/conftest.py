"""Fixtures of the fault tests; how many faults there are is said by FAULTS, which of them by SEED."""

import os
import secrets
import subprocess

import numpy as np
import pytest

from tests.end_to_end.conftest import new_service, problem, service, text  # noqa: F401 - fixtures


@pytest.fixture
def rng(request):
    """Printed when a test fails; SEED=... does the same again."""
    seed = int(os.environ.get("SEED") or secrets.randbits(32))
    print(f"SEED={seed} {request.node.nodeid}")
    return np.random.default_rng(seed)


@pytest.fixture
def small_disk():
    """Gives a directory a disk of its own of so many bytes, until the test ends."""
    mounted = []

    def mount(directory, size):
        directory.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("may not mount a file system")
        mounted.append(directory)

    yield mount
    for directory in mounted:
        subprocess.run(["umount", "-l", str(directory)], check=True)
