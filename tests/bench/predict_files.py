"""How fast files are predicted: the product with the weights alone, the reading alone, and files into a file.

Seconds are of processor time, which other work on the machine changes least.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import pyarrow
from pyarrow import parquet
from scipy import sparse

from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.libsvm import LibsvmParser
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.models.model_file import Model
from tests.bench.report import header, prose, row

ROWS, FEATURES, VALUES = 300_000, 100_000, 20
TABLE_ROWS, TABLE_COLUMNS = int(os.environ.get("ROWS", "10000000")), 20
_GROUP_ROWS = 131_072
_FEW_ROWS = 2000
_MEASURED = """
import resource, sys
from streamsvm.service.cli import main
code = main(["predict", *sys.argv[1:]])
used = resource.getrusage(resource.RUSAGE_SELF)
# The largest memory of getrusage would be that of the process before exec.
(peak,) = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(used.ru_utime + used.ru_stime, int(peak) >> 10)
sys.exit(code)
"""


def run() -> Iterator[str]:
    """Lines of Markdown."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as name:
        directory = Path(name)
        X, w = _matrix(), np.random.default_rng(1).standard_normal(FEATURES)
        model, text = Model(w, (1.0, -1.0), 1), directory / "rows.svm"
        (directory / "linear.model").write_bytes(b"".join(MODEL_FORMATS["liblinear"].write(model)))
        _write_text(X, text)
        yield from prose(
            f"{ROWS:,} rows of {VALUES} values among {FEATURES:,} features: million rows per second of a core. "
            "`product` has the rows in memory, `reading` makes rows of text, `files` is the command, text to Parquet, "
            "with the second in which it starts."
        )
        yield from header("", "product", "reading", "files")
        product, reading = _ours(Predictor(model), text)
        yield row("StreamSVM", *(_rate(each) for each in (product, reading)), _rate(_command(directory, text)[0]))
        yield row("scikit-learn (scipy)", _rate(_seconds(lambda: X @ w)), "-", "-")
        yield row("LIBLINEAR predict", "-", "-", _rate(_liblinear(directory, text)))
        yield row("LIBSVM svm-predict, w as a support vector", "-", "-", _rate(_libsvm(directory, text, w)))
        yield row("onnxruntime, dense rows", _rate(_onnxruntime(model, X)), "-", "-")
        yield ""
        seconds, megabytes = table_figures(directory, TABLE_ROWS)
        yield from prose(
            f"{TABLE_ROWS / 1e6:g} million rows of {TABLE_COLUMNS} columns, Parquet to Parquet with `--keep id`: "
            f"{TABLE_ROWS / 1e6 / seconds:.2f} million rows per second of a core, "
            f"{megabytes:.0f} MiB of memory at most."
        )


def table_figures(directory: Path, n_rows: int) -> tuple[float, float]:
    """Processor seconds and MiB of the command that predicts so many rows from Parquet to Parquet."""
    names = [f"x{k}" for k in range(TABLE_COLUMNS)]
    rng, path = np.random.default_rng(2), directory / "rows.parquet"
    schema = pyarrow.schema([("id", pyarrow.int64()), *((name, pyarrow.float32()) for name in names)])
    with parquet.ParquetWriter(path, schema) as file:
        for first in range(0, n_rows, _GROUP_ROWS):
            count = min(_GROUP_ROWS, n_rows - first)
            columns = [rng.standard_normal(count, np.float32) for _ in names]
            file.write_table(pyarrow.table([np.arange(first, first + count), *columns], schema))
    model = Model(rng.standard_normal(TABLE_COLUMNS), (1.0, -1.0), 1)
    (directory / "linear.model").write_bytes(b"".join(MODEL_FORMATS["liblinear"].write(model)))
    return _command(directory, path, "--keep", "id")


def _matrix() -> sparse.csr_matrix:
    rng = np.random.default_rng(0)
    step = FEATURES // VALUES
    columns = np.arange(VALUES) * step + rng.integers(0, step, (ROWS, VALUES))
    values = rng.integers(1, 1000, ROWS * VALUES) / 8
    return sparse.csr_matrix((values, columns.ravel(), np.arange(ROWS + 1) * VALUES), (ROWS, FEATURES))


def _write_text(X: sparse.csr_matrix, path: Path) -> None:
    pairs = [f"{column + 1}:{value:g}" for column, value in zip(X.indices.tolist(), X.data.tolist(), strict=True)]
    with path.open("w") as file:
        for first in range(0, len(pairs), VALUES):
            file.write(f"1 {' '.join(pairs[first : first + VALUES])}\n")


def _ours(predictor: Predictor, text: Path) -> tuple[float, float]:
    """Seconds of the product, and of the reading."""
    data = text.read_bytes()
    options = InputOptions(index_base=1)
    read = lambda: list(LibsvmParser(options, InputLimits(), labelled=False).parse_chunks([data]))  # noqa: E731
    rows = read()
    predict = lambda: [predictor.predict(each) for each in rows]  # noqa: E731
    return _seconds(predict), _seconds(read)


def _seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    """The least processor time of some repeats, the first of which warms up."""
    work()
    found = []
    for _ in range(repeats):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def _command(directory: Path, source: Path, *options: str) -> tuple[float, float]:
    """Processor seconds and MiB of `streamsvm predict` into Parquet."""
    command = [sys.executable, "-c", _MEASURED, directory / "linear.model", source, "-o", directory / "out.parquet"]
    done = subprocess.run([*command, *options], check=True, capture_output=True, text=True)
    seconds, megabytes = map(float, done.stdout.split()[-2:])
    return seconds, megabytes


def _liblinear(directory: Path, text: Path) -> float | None:
    program = which("liblinear-predict") or which("predict")
    if program is None:
        return None
    before = os.times().children_user
    subprocess.run([program, "-q", text, directory / "linear.model", directory / "labels"], check=True)
    return os.times().children_user - before


def _libsvm(directory: Path, text: Path, w: np.ndarray) -> float | None:
    """Seconds of LIBSVM for all rows, of which so many are predicted as take little time."""
    program = which("svm-predict")
    if program is None:
        return None
    few, model = directory / "few.svm", directory / "libsvm.model"
    with text.open() as lines:
        few.write_text("".join(islice(lines, _FEW_ROWS)))
    head = "svm_type c_svc\nkernel_type linear\nnr_class 2\ntotal_sv 1\nrho 0\nlabel 1 -1\nnr_sv 1 0\nSV\n1 "
    model.write_text(head + " ".join(f"{k}:{value:.17g}" for k, value in enumerate(w.tolist(), 1)) + "\n")
    before = os.times().children_user
    subprocess.run([program, "-q", few, model, directory / "labels"], check=True)
    return (os.times().children_user - before) * ROWS / _FEW_ROWS


def _onnxruntime(model: Model, X: sparse.csr_matrix) -> float | None:
    """Seconds for all rows, of which so many are predicted dense as take little memory."""
    try:
        onnxruntime = importlib.import_module("onnxruntime")
        session = onnxruntime.InferenceSession(b"".join(MODEL_FORMATS["onnx"].write(model)))
    except ImportError:
        return None
    dense = X[:200].toarray()
    return _seconds(lambda: session.run(None, {"X": dense})) * ROWS / len(dense)


def _rate(seconds: float | None) -> str:
    return "-" if seconds is None else f"{ROWS / 1e6 / seconds:.2f}"
