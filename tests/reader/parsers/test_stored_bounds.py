"""Tables of a few bytes that decode to many are read, or refused, in bounded memory; work is linear in columns."""

import json
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pyarrow
import pytest

from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers import open_parser
from streamsvm.reader.parsers.tables.arrow import plain_values
from streamsvm.reader.parsers.values import LabelNames
from tests.reader.parsers.test_arrow import as_file, as_orc, as_parquet, as_stream

ROWS = 1 << 15
LABELS = pyarrow.array(np.arange(ROWS) % 2)
WORD = pyarrow.DictionaryArray.from_arrays(pyarrow.array(np.zeros(ROWS, np.int32)), [30_000 * "x"])
FEATURE, LABEL = {"label": LABELS, "w": WORD}, {"label": WORD, "w": LABELS}
GROUP = {"label": LABELS, "w": LABELS, "g": WORD}
CATEGORICAL, TEXT, SKIP = "--categorical=all", "--text-column=w", "--on-bad-row=skip"
ZSTD, LZ4 = (partial(as_file, rows=ROWS, compression=name) for name in ("zstd", "lz4"))
READ = """
import sys
from streamsvm.reader.ingest.run import main
code = main(*sys.argv[1:])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.parametrize(
    ("format_", "written", "columns", "options", "code", "most"),
    [
        ("parquet", as_parquet, FEATURE, [CATEGORICAL], None, 400),
        ("parquet", as_parquet, FEATURE, [TEXT], None, 400),
        ("parquet", as_parquet, LABEL, [SKIP], "no_rows", 400),
        ("parquet", as_parquet, GROUP, [SKIP, "--group-column=g"], "no_rows", 400),
        ("arrow", ZSTD, FEATURE, [CATEGORICAL], None, 400),
        ("arrow", ZSTD, LABEL, [SKIP], "no_rows", 400),
        ("plain arrow", LZ4, FEATURE, [CATEGORICAL], "batch_too_large", 400),
        ("plain orc", as_orc, FEATURE, [CATEGORICAL], "decompressed_too_large", 600),
        ("plain orc", as_orc, FEATURE, [TEXT], "decompressed_too_large", 600),
    ],
)
def test_a_long_word_in_each_row_takes_little_memory(tmp_path, format_, written, columns, options, code, most):
    """Written out, the words have a GB."""
    if format_.startswith("plain"):
        columns = columns | {"w": plain_values(columns["w"])}
    command = [sys.executable, "-c", READ, str(tmp_path / "data"), f"--format={format_.split()[-1]}", *options]
    done = subprocess.run(command, input=written(pyarrow.table(columns)), capture_output=True, check=True)
    said, kib = done.stdout.splitlines()
    assert json.loads(said).get("problem", {}).get("code") == code and int(kib) < most << 10, kib


def seconds(format_: str, written, folder, n_columns: int) -> float:
    """Seconds of this process to read two rows."""
    columns = {"label": [0, 1]} | {f"f{k}": pyarrow.array([1.5, 2.0]) for k in range(n_columns)}
    data = written(pyarrow.table(columns))
    parser = open_parser(InputOptions(format_), InputLimits(), LabelNames(), 1, folder)
    before = time.process_time()
    assert sum(map(len, parser.parse_chunks([data]))) == 2
    return time.process_time() - before


@pytest.mark.parametrize(("format_", "way"), [("parquet", as_parquet), ("arrow", as_file), ("frames", as_stream)])
def test_twice_the_columns_take_twice_the_time(tmp_path, format_, way):
    seconds_of = partial(seconds, format_, way, tmp_path)
    seconds_of(10)
    assert any(seconds_of(20_000) < 2.6 * seconds_of(10_000) for _ in range(3))
