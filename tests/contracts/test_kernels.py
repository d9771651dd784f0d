"""Kernels and parsers give the same bits compiled and in plain Python: what a debugger shows is what runs."""

import os
import subprocess
import sys
from pathlib import Path

from tests.contracts import kernels
from tests.contracts.digests import digests

ROOT = Path(__file__).resolve().parents[2]


def test_compiled_and_plain_agree_to_the_bit():
    command, plain = [sys.executable, "-m", "tests.contracts.digests"], {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, env=plain, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pairs = (line.split(" ", 1) for line in done.stdout.splitlines())
    assert digests() == {name: digest for digest, name in pairs}


def test_dense_rows_give_the_bits_of_the_same_rows_with_indices():
    assert kernels.of_rows(kernels.dense_columns()) == kernels.of_rows(kernels.dense_columns(has_indices=True))
