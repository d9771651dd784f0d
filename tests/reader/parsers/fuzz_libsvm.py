"""Texts made up by atheris, guided by what they reach, to the LIBSVM reader and to the slow one: both say the same.

    python -m tests.reader.fuzz_libsvm -max_total_time=120

The kernels run uncompiled, so that their branches are seen. Further options are libFuzzer's; it ends with a text that
is read differently.
"""

import os
import sys
import tempfile
from pathlib import Path

os.environ["NUMBA_DISABLE_JIT"] = "1"

import atheris

with atheris.instrument_imports(include=["reader"]):
    from streamsvm.reader.limits import InputLimits
    from tests.reader.parsers.test_libsvm import FAULTS, expected, outcome


def compare(data: bytes) -> None:
    """The last bytes say how the others are to be read."""
    given = atheris.FuzzedDataProvider(data)
    size, window_bytes = given.PickValueInList([1, 7, 4096]), given.PickValueInList([4, 64, 4096])
    index_base = given.PickValueInList(["auto", 0, 1])
    limits = InputLimits(max_line_bytes=given.PickValueInList([2**24, 30]))
    text = given.ConsumeBytes(given.remaining_bytes())
    assert outcome(text, size, index_base, limits, window_bytes, threads=1) == expected(text, index_base, limits)


def main() -> None:
    """Does not return."""
    with tempfile.TemporaryDirectory() as corpus:
        for number, (text, *_) in enumerate(FAULTS):
            (Path(corpus) / str(number)).write_bytes(text + bytes(4))
        atheris.Setup([*sys.argv, "-max_len=120", f"-artifact_prefix={corpus}/", corpus], compare)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
