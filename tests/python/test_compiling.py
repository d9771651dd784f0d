"""The first training on a machine compiles each kernel once, and says so; later ones say nothing."""

import os
import re
import subprocess
import sys
from collections import Counter

import numba
import numpy as np
import pytest

from streamsvm.service.cli import main
from streamsvm.service.processes import kernels
from streamsvm.storage.files.codec_kernel import integrate
from streamsvm.storage.rows.csr import INDEX, INDPTR, read_only
from tests.end_to_end.service import STREAMSVM
from tests.kernels import compiled_in, listening

IRIS = """
from sklearn.datasets import load_iris
from streamsvm import StreamSVC
StreamSVC().fit(*load_iris(return_X_y=True))
"""
SAID = "streamsvm: compiling kernels, once, for some 20 s\n"
# For words and offsets of 4 and of 8 bytes; for numbers that callers know when they are compiled.
SEVERAL_TYPES = {"split_bytes", "join_bytes", "row_dots", "score_of", "prefetch_row"}
MET = 4


def test_each_kernel_is_compiled_once_by_two_processes_that_one_line_announces(tmp_path):
    environment = {**os.environ, **listening(tmp_path)}
    (tmp_path / "rows.csv").write_text("label,a\n" + "1,0.5\n-1,-0.5\n" * 20)
    train = [str(STREAMSVM), "train", str(tmp_path / "rows.csv")]
    for command, is_first in (
        ([sys.executable, "-c", IRIS], True),
        (train, True),
        (train, False),
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stderr.count(SAID) == done.stderr.count("compiling") == is_first, done.stderr
    pids, compiled = compiled_in(tmp_path)
    # Both processes may meet in a small kernel that others call.
    assert len(compiled) - len(set(compiled)) <= MET and len(set(pids)) <= 4
    names = Counter(kernel.partition("(")[0].rpartition(".")[2] for kernel in set(compiled))
    assert {name for name, count in names.items() if count > 1} == SEVERAL_TYPES
    assert names["visit_lanes"] == names["visit_rows"] == names["read_table"] == 1


def test_numba_refuses_a_kernel_that_writes_to_rows_that_are_only_read():
    """In memory of the cache it would end the process by a signal."""
    with pytest.raises(numba.TypingError, match="readonly"):
        integrate(np.zeros(1, INDPTR), *read_only(np.zeros(1, INDEX)))


def test_kernels_are_compiled_ahead_by_a_command(capsys):
    for seconds in (r"\d+\.\d", r"0\.0"):
        assert main(["warm"]) == 0
        assert re.fullmatch(rf"the kernels of ordinary jobs are compiled \({seconds} s\)\n", capsys.readouterr().out)
        assert not kernels.missing(*kernels.STEPS)
