"""The kernels of tables with categories and of strings give equal results without the compiler."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
from pathlib import Path
from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.csv import CsvParser
from streamsvm.reader.parsers.fasta import FastaParser

def show(parser, text):
    parser.window_bytes = 64
    try:
        for rows in parser.parse_chunks([text]):
            print(*(array.tobytes().hex() for array in (rows.label, rows.indptr, rows.indices, rows.values)))
        print(parser.input, parser.counters, [fault.problem() for fault in parser.rejected.first])
    except InputError as error:
        print(error.problem())

table = b'label,proto,x,seq\\n1,tcp,0.1,ACGTN\\n-1,"u,dp",1e-3,ttttt\\n1,,,GGGGG\\n2,"a""b",123456789.123456789,AC\\n'
fasta = b">a label=1\\nACGTNACGTacgtnRYac\\n\\n>label=0.1\\nACGTNACGTacgt\\nnRYat\\n>label=x\\nA\\n"
fasta += b">label=2\\nACX\\nA\\n"
for given in (
    {"categorical": "proto,seq", "missing": "indicator"},
    {"categorical": "proto,seq", "missing": "zero", "categories": "hashed", "n_features": 7},
    {"categorical": "proto,seq"}, {"string_column": "seq"}, {"categorical": "all", "on_bad_row": "skip"},
):
    show(CsvParser(InputOptions("csv", **given), InputLimits()), table)
for skip in ("skip", "fail"):
    show(FastaParser(InputOptions("fasta", on_bad_row=skip), InputLimits()), fasta)
    show(FastaParser(InputOptions("fasta", on_bad_row=skip), InputLimits(), labelled=False), b"ACG\\nNNT\\nAC\\n")
"""


def run_script(disable_jit: str) -> str:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": disable_jit, "PYTHONPATH": str(ROOT)}
    # Hashes overflow; numpy warns of it, the compiler does not.
    command = [sys.executable, "-W", "error", "-W", "ignore:overflow:RuntimeWarning", "-c", SCRIPT]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kernels_give_the_same_bits_without_the_compiler():
    compiled = run_script("0")
    assert compiled == run_script("1")
    assert compiled.count("code") >= 4 and compiled.count("dictionary") >= 2
