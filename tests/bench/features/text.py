"""Documents to a model: `streamsvm train` against scikit-learn's hashing, idf and LinearSVC, from a file."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from streamsvm.service.processes.kernels import compile_kernels
from tests.bench.commands import launch
from tests.bench.features import ours
from tests.bench.jobs import scratch
from tests.bench.memory import Watch
from tests.bench.prepared import size_limit
from tests.bench.report import cell, header, prose, row
from tests.reference.data import available, load_binary

C = 1.0
CACHE = 64 << 20
EXACT = 1e-9  # relative gap, where predictions are compared
NEAR = 1e-6  # of the plane: there rounding decides
LEAST_FASTER, MOST_MEMORY = 10.0, 0.1
_VOCABULARY, _WORDS = 200_000, 120  # of the generated documents, words of one
_DOCUMENTS_AT_ONCE = 5_000

# What a user of scikit-learn writes; prints a line of JSON: seconds, and of test documents the decision values.
PIPELINE = """
import json, sys
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

def rows(path):
    with open(path) as file:
        labels, texts = zip(*(line.rstrip("\\n").split("\\t", 1) for line in file))
    return [int(label) for label in labels], list(texts)

own, test, tol = sys.argv[1:4]
y, texts = rows(own)
model = make_pipeline(
    HashingVectorizer(norm=None), TfidfTransformer(), LinearSVC(C=1.0, tol=float(tol), max_iter=100_000)
).fit(texts, y)
if test != "-":
    print(json.dumps(model.decision_function(rows(test)[1]).tolist()))
"""


def run() -> Iterator[str]:
    """Lines of Markdown."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        yield from prose(
            "*scikit-learn*: HashingVectorizer, TfidfTransformer, LinearSVC (squared hinge, a constant feature, C = "
            "1, tolerance 1e-4), from the file to the model, imports included. *streamsvm*: `streamsvm train FILE "
            f"--format text --features idf --loss squared_hinge --bias 1 --relative-gap 1e-3`, cache {CACHE >> 20} "
            "MiB. One run each."
        )
        small = Path(directory) / "small.txt"
        small.write_text("1\ta fine film\n-1\ta dull film\n" * 200)
        compile_kernels(lambda *_: None)  # as for whoever trains at a terminal, or serves
        _ours(small)  # what else documents need
        yield from header("documents", "", "seconds", "core seconds", "peak, MiB", words=2)
        files = {}
        if available("imdb.train"):
            files["imdb, words of each once"] = _imdb(Path(directory))
        files["generated"] = _generated(Path(directory), size_limit()), None
        for name, (own, test) in files.items():
            yield from _compared(f"{name}, {own.stat().st_size / 1e6:.0f} MB", own)
            if test is not None:
                agreement = _agreement(own, test)
        yield ""
        if available("imdb.train"):
            yield from prose(agreement)


def _compared(name: str, own: Path) -> Iterator[str]:
    mine = _ours(own)
    with scratch() as cache, Watch(cache) as watch:
        theirs = launch([sys.executable, "-c", PIPELINE, own, "-", "1e-4"])
    yield row(name, "streamsvm", cell(mine.spent.seconds), cell(mine.spent.core_seconds), mine.peak_bytes >> 20)
    yield row(name, "scikit-learn", cell(theirs.spent.seconds), cell(theirs.spent.core_seconds), watch.peak_bytes >> 20)
    faster, memory = theirs.spent.seconds / mine.spent.seconds, mine.peak_bytes / watch.peak_bytes
    said = "**met**" if faster >= LEAST_FASTER and memory <= MOST_MEMORY else "**missed**"
    yield row(
        name, f"{said}: {faster:.3g} times as fast ({LEAST_FASTER:g} asked), {memory:.2g} of the memory", "", "", ""
    )


def _ours(own: Path) -> ours.Trained:
    return ours.train(
        own, CACHE, "--format", "text", "--features", "idf", "--loss", "squared_hinge", "--bias", "1", "-C", f"{C:g}",
        "--tolerance", "none", "--relative-gap", "1e-3",
    )  # fmt: skip


def _agreement(own: Path, test: Path) -> str:
    mine = ours.train(
        own, 1 << 30, "--format", "text", "--features", "idf", "--loss", "squared_hinge", "--bias", "1", "-C",
        f"{C:g}", "--tolerance", "none", "--relative-gap", f"{EXACT:g}", "--max-passes", "1000",
    )  # fmt: skip
    texts = [line.split("\t", 1)[1].rstrip("\n") for line in test.read_text().splitlines()]
    values = mine.predictor.document_values(texts)
    values = values if mine.predictor.classes[0] == 1.0 else -values
    command = [sys.executable, "-c", PIPELINE, own, test, "1e-9"]
    done = subprocess.run([str(word) for word in command], capture_output=True, check=True)
    theirs = np.array(json.loads(done.stdout.splitlines()[-1]))
    differ = (values > 0) != (theirs > 0)
    far = differ & (np.abs(theirs) > NEAR)
    said = "**Met**" if not far.any() else "**Missed**"
    return (
        f"{said}: trained to a gap of {mine.gap:.1e} and to LinearSVC's tolerance 1e-9, both say the same of all "
        f"but {far.sum()} of {len(texts):,} test documents (those within {NEAR:g} of the plane left out: "
        f"{(np.abs(theirs) <= NEAR).sum()}); decision values differ by at most {np.abs(values - theirs).max():.1e}."
    )


def _imdb(directory: Path) -> tuple[Path, Path]:
    """Reviews as lists of their words: what the data set keeps of them; a word is named by its number."""
    paths = directory / "imdb.txt", directory / "imdb.test.txt"
    for path, name in zip(paths, ("imdb.train", "imdb.test"), strict=True):
        X, y = load_binary(name)
        with path.open("w") as file:
            for label, begin, end in zip(y, X.indptr[:-1], X.indptr[1:], strict=True):
                file.write(f"{label:.0f}\t{' '.join(f'w{word}' for word in X.indices[begin:end].tolist())}\n")
    return paths


def _generated(directory: Path, n_bytes: int) -> Path:
    """Documents of words by Zipf's law; some words are of one class more often."""
    rng = np.random.default_rng(0)
    words = np.array([f"{rng.integers(1 << 40):x}"[: 3 + k % 8] + f"{k:x}" for k in range(_VOCABULARY)])
    weight = rng.normal(size=_VOCABULARY)
    path = directory / "generated.txt"
    with path.open("w") as file:
        while file.tell() < n_bytes:
            picked = np.minimum(rng.zipf(1.15, (_DOCUMENTS_AT_ONCE, _WORDS)), _VOCABULARY) - 1
            y = np.where(weight[picked].sum(axis=1) + 3.0 * rng.normal(size=_DOCUMENTS_AT_ONCE) > 0, 1, -1)
            texts = (" ".join(each) for each in words[picked].tolist())
            file.writelines(f"{label}\t{text}\n" for label, text in zip(y.tolist(), texts, strict=True))
    return path
