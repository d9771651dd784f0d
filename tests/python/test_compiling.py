"""What numba compiles, and what a command compiles ahead."""

import re

import numba
import numpy as np
import pytest

from streamsvm.service.cli import main
from streamsvm.service.processes import kernels
from streamsvm.storage.files.codec_kernel import integrate
from streamsvm.storage.rows.csr import INDEX, INDPTR, read_only


def test_numba_refuses_a_kernel_that_writes_to_rows_that_are_only_read():
    """In memory of the cache it would end the process by a signal."""
    with pytest.raises(numba.TypingError, match="readonly"):
        integrate(np.zeros(1, INDPTR), *read_only(np.zeros(1, INDEX)))


def test_kernels_are_compiled_ahead_by_a_command(capsys):
    for seconds in (r"\d+\.\d", r"0\.0"):
        assert main(["warm"]) == 0
        assert re.fullmatch(rf"the kernels of ordinary jobs are compiled \({seconds} s\)\n", capsys.readouterr().out)
        assert not kernels.missing(*kernels.STEPS)
