"""`streamsvm train` with feature maps, from a file to a model."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from streamsvm.service.commands.train import NOT_CONVERGED
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.predicting.predictor import Predictor
from tests.bench.commands import launch, train_words
from tests.bench.jobs import scratch
from tests.bench.memory import Watch
from tests.bench.usage import Spent


@dataclass(frozen=True)
class Trained:
    """spent and peak_bytes of the whole command; result: the last line that it printed."""

    spent: Spent
    peak_bytes: int
    result: dict
    predictor: Predictor

    @property
    def objective(self) -> float:
        return self.result["certificate"]["primal_objective"]

    @property
    def gap(self) -> float:
        return self.result["certificate"]["relative_duality_gap"]


def train(file: Path, cache_bytes: int, *options: str) -> Trained:
    """Train on a file, its model read back."""
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        model = Path(directory) / "model.npz"
        with scratch() as cache, Watch(cache) as watch:
            ended = launch(train_words(file, model, cache_bytes, *options), STREAMSVM_CACHE_DIR=str(cache))
        if ended.code not in (0, NOT_CONVERGED):
            raise RuntimeError(f"streamsvm train ended with exit code {ended.code}: {ended.printed[-2000:]!r}")
        with model.open("rb") as stored:
            predictor = Predictor(MODEL_FORMATS["npz"].read(stored))
    return Trained(ended.spent, watch.peak_bytes, json.loads(ended.printed.splitlines()[-1])["result"], predictor)
