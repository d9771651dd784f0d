"""LIBSVM's programs, as Debian has them: `svm-train` and `svm-predict`."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from streamsvm.storage.models.support_vectors import SupportVectors
from tests.bench.commands import launch
from tests.bench.usage import Spent

TRAIN, PREDICT = "svm-train", "svm-predict"
CACHE_MB = 1000
OUT_OF_TIME = 124  # of timeout(1)


@dataclass(frozen=True)
class Trained:
    """
    spent      reading the text, training, writing the model
    objective  D(alpha) in the end: P to the program's tolerance, with a bias
    vectors    in the model
    accuracy   of svm-predict on the test rows
    """

    spent: Spent
    objective: float
    vectors: int
    accuracy: float


def is_there() -> bool:
    """Whether both programs are installed."""
    return bool(shutil.which(TRAIN) and shutil.which(PREDICT))


def train_words(text: Path, model: Path, C: float, gamma: float, most_seconds: float, cache_mb: int) -> list[str]:
    """svm-train at its default tolerance, ended after so many seconds."""
    own = [TRAIN, "-s", "0", "-t", "2", "-c", f"{C!r}", "-g", f"{gamma!r}", "-m", str(cache_mb)]
    return ["timeout", f"{most_seconds:g}", *own, str(text), str(model)]


def train(text: Path, test: Path, C: float, gamma: float, most_seconds: float) -> Trained | None:
    """None: it was not done after so many seconds."""
    model = text.with_suffix(".libsvm")
    ended = launch(train_words(text, model, C, gamma, most_seconds, CACHE_MB))
    if ended.code == OUT_OF_TIME:
        return None
    if ended.code:
        raise RuntimeError(f"{TRAIN} ended with exit code {ended.code}")
    head = model.read_text().partition("\nSV\n")[0]
    found = re.search(r"^total_sv (\d+)$", head, re.MULTILINE)
    assert found
    return Trained(ended.spent, objective_of(ended.printed), int(found[1]), predict(test, model)[0])


def objective_of(printed: bytes) -> float:
    """What svm-train says last, its sign turned: it minimizes -D."""
    return -float(re.findall(rb"obj = (-?[\d.e+-]+)", printed)[-1])


def predict(text: Path, model: Path) -> tuple[float, Spent]:
    """The accuracy, and what the program took."""
    ended = launch([PREDICT, str(text), str(model), "/dev/null"])
    found = re.search(rb"Accuracy = ([\d.]+(?:e[+-]?\d+)?)%", ended.printed)
    if found is None:
        raise RuntimeError(f"{PREDICT} ended with exit code {ended.code}")
    return float(found[1]) / 100, ended.spent


def write_model(path: Path, vectors: SupportVectors, beta: list[float]) -> None:
    """A machine without bias in LIBSVM's text; its features are columns from 0 on."""
    order = sorted(range(len(beta)), key=lambda s: beta[s] < 0)
    counts = len(beta) - sum(value < 0 for value in beta), sum(value < 0 for value in beta)
    head = f"svm_type c_svc\nkernel_type rbf\ngamma {vectors.gamma:.17g}\nnr_class 2\ntotal_sv {len(beta)}\nrho 0\n"
    lines = [head + f"label 1 -1\nnr_sv {counts[0]} {counts[1]}\nSV\n"]
    for s in order:
        part = slice(vectors.indptr[s], vectors.indptr[s + 1])
        pairs = zip(vectors.indices[part].tolist(), vectors.values[part].tolist(), strict=True)
        lines.append(f"{beta[s]:.17g} " + " ".join(f"{feature + 1}:{value:.9g}" for feature, value in pairs) + " \n")
    path.write_text("".join(lines))
