"""A table with words in it, like that of KDD Cup 1999: one upload, one job, against OneHotEncoder and LinearSVC."""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from streamsvm.reader.options import InputOptions
from tests.bench.commands import launch
from tests.bench.features import ours
from tests.bench.jobs import scratch
from tests.bench.memory import Watch
from tests.bench.report import cell, header, prose, row

ROWS, TEST_ROWS = 400_000, 50_000
CACHE = 64 << 20
MOST_BEHIND = 0.001
_SERVICES = [f"service{k}" for k in range(66)]
_FLAGS = ["SF", "S0", "REJ", "RSTR", "SH", "S1", "S2", "OTH", "RSTO", "S3", "RSTOS0"]
_NUMBERS = 12

PIPELINE = """
import csv, sys
import numpy as np
import pandas
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder
from sklearn.svm import LinearSVC

own, test = (pandas.read_csv(path) for path in sys.argv[1:3])
words = ["protocol", "service", "flag"]
numbers = [name for name in own.columns if name not in (*words, "label")]
model = make_pipeline(
    make_column_transformer((OneHotEncoder(handle_unknown="ignore"), words), (MaxAbsScaler(), numbers)),
    LinearSVC(C=1.0, loss="hinge", max_iter=10_000),
).fit(own.drop(columns="label"), own["label"])
print(model.score(test.drop(columns="label"), test["label"]))
"""


def run() -> Iterator[str]:
    """Lines of Markdown."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        own, test = Path(directory) / "own.csv", Path(directory) / "test.csv"
        write(own, ROWS, 0)
        write(test, TEST_ROWS, 1)
        yield from prose(
            f"{ROWS:,} generated rows of 3 columns of words (3, {len(_SERVICES)} and {len(_FLAGS)} of them) and "
            f"{_NUMBERS} of numbers on scales from 1 to 1e6, {own.stat().st_size / 1e6:.0f} MB of CSV; {TEST_ROWS:,} "
            "more held out; hinge loss, C = 1, a constant feature. *streamsvm*: `streamsvm train FILE --categorical "
            "all --features scale --bias 1`. *scikit-learn*: pandas, OneHotEncoder, MaxAbsScaler, LinearSVC. From "
            "the file to the model, one run each."
        )
        mine = ours.train(
            own, CACHE, "--format", "csv", "--label-column", "label", "--categorical", "all", "--features", "scale",
            "--bias", "1", "--tolerance", "none", "--relative-gap", "1e-3",
        )  # fmt: skip
        with scratch() as cache, Watch(cache) as watch:
            theirs = launch([sys.executable, "-c", PIPELINE, own, test])
        accuracy, other = _accuracy(mine, test), float(theirs.printed.splitlines()[-1])
        yield from header("", "accuracy", "seconds", "core seconds", "peak, MiB")
        yield row(
            "streamsvm",
            f"{accuracy:.3%}",
            cell(mine.spent.seconds),
            cell(mine.spent.core_seconds),
            mine.peak_bytes >> 20,
        )
        yield row(
            "scikit-learn", f"{other:.3%}", cell(theirs.spent.seconds), cell(theirs.spent.core_seconds),
            watch.peak_bytes >> 20,
        )  # fmt: skip
        yield ""
        said = "**Met**" if accuracy >= other - MOST_BEHIND else "**Missed**"
        yield from prose(f"{said}: accuracies differ by {accuracy - other:+.3%}.")


def _accuracy(mine: ours.Trained, test: Path) -> float:
    with test.open("rb") as file:
        options = InputOptions("csv", label_column="label")
        found = list(mine.predictor.predict_text([file.read()], options=options))
    labels = np.concatenate([each.labels for each in found])
    with test.open() as file:
        expected = np.array([float(line["label"]) for line in csv.DictReader(file)])
    return float(np.mean(labels.astype(float) == expected))


def write(path: Path, n_rows: int, seed: int) -> None:
    """Rows whose label depends on words, on numbers, and on neither in 3% of them."""
    landscape, rng = np.random.default_rng(7), np.random.default_rng((3, seed))
    columns = {"protocol": ["tcp", "udp", "icmp"], "service": _SERVICES, "flag": _FLAGS}
    effects = {name: landscape.normal(size=len(words)) for name, words in columns.items()}
    picked = {name: rng.integers(len(words), size=n_rows) for name, words in columns.items()}
    scales = 10.0 ** landscape.uniform(0, 6, _NUMBERS)
    numbers, slopes = rng.exponential(size=(n_rows, _NUMBERS)), landscape.normal(size=_NUMBERS)
    score = sum(effects[name][picked[name]] for name in columns) + (numbers - 1.0) @ slopes
    y = np.where((score > 0) ^ (rng.random(n_rows) < 0.03), 1, -1)
    with path.open("w") as file:
        file.write(",".join(["label", *columns, *(f"number{k}" for k in range(_NUMBERS))]) + "\n")
        for k in range(n_rows):
            words = [columns[name][picked[name][k]] for name in columns]
            values = [f"{value:.6g}" for value in (numbers[k] * scales).tolist()]
            file.write(",".join([str(y[k]), *words, *values]) + "\n")
