"""Fixtures of the fault tests; how many faults there are is said by FAULTS, which of them by SEED."""

import os
import secrets

import numpy as np
import pytest

from tests.end_to_end.conftest import new_service, problem, service, text  # noqa: F401 - fixtures


@pytest.fixture
def rng(request):
    """Printed when a test fails; SEED=... does the same again."""
    seed = int(os.environ.get("SEED") or secrets.randbits(32))
    print(f"SEED={seed} {request.node.nodeid}")
    return np.random.default_rng(seed)
