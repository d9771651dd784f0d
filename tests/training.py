"""Reader and trainer in one process, taking turns: no threads, no sleeping, the same files as a real run."""

import json
from dataclasses import dataclass
from pathlib import Path

from reader.process import Reader
from storage.csr import Array
from storage.dataset import Dataset
from storage.plan import plan_cache
from storage.state import State, create_state, open_state
from trainer.process import Trainer

DEFAULTS = {
    "solver": "streamsvm",
    "loss": "hinge",
    "C": 1.0,
    "C_negative": None,
    "bias": None,
    "tolerance": 1e-3,
    "relative_gap": None,
    "max_passes": 100,
    "max_seconds": None,
    "updates_per_row": 2,
    "pace": "fixed",
    "eviction": "score",
    "seed": 0,
}


@dataclass
class Outcome:
    """What a run left: a dict per pass, the result with its certificate, and the state."""

    passes: list[dict]
    result: dict
    state: State

    @property
    def w(self) -> Array:
        return self.state.w

    @property
    def alpha(self) -> Array:
        return self.state.alpha


def write_run(run: Path, dataset: Path, cache_bytes: int, positive: float | None = None, **settings: object) -> None:
    """Lay out a run directory as the worker does."""
    chosen = {**DEFAULTS, **settings}
    assert chosen.keys() == DEFAULTS.keys(), chosen.keys() - DEFAULTS.keys()
    manifest = Dataset(dataset).manifest
    bias = chosen.pop("bias")
    C = chosen.pop("C")
    weights = {"C_positive": C, "C_negative": chosen.pop("C_negative") or C}
    width = manifest.width + (bias is not None)
    plan = plan_cache(cache_bytes, manifest.longest_row + 1)
    reader = {
        "dataset": str(dataset),
        "positive": max(manifest.labels) if positive is None else positive,
        **weights,
        "loss": chosen["loss"],
        "bias": bias,
        "cache_bytes": cache_bytes,
        "eviction": chosen["eviction"],
        "seed": chosen["seed"],
    }
    rows = plan.row_bytes / manifest.decoded_bytes * manifest.n_rows
    trainer = {"n_rows": manifest.n_rows, "width": width, "cache_rows": rows, **weights, **chosen}
    run.mkdir(parents=True)
    create_state(run, manifest.n_rows, width)
    (run / "run.json").write_text(json.dumps({"reader": reader, "trainer": trainer}))


def train(run: Path, dataset: Path, cache_bytes: int, positive: float | None = None, **settings: object) -> Outcome:
    """Train to the stop rule in this process."""
    write_run(run, dataset, cache_bytes, positive, **settings)
    reader = Reader(run)
    while reader.step():
        pass
    cache = reader.cache_reader()
    trainer = Trainer(run, cache, wait=reader.step)
    passes = []
    while trainer.stop_reason is None:
        passes.append(trainer.step())
    trainer.shutdown()
    while not reader.is_finished:
        reader.step()
    cache.close()
    reader.shutdown()
    settings_ = json.loads((run / "run.json").read_text())["trainer"]
    return Outcome(passes, trainer.result(), open_state(run, settings_["n_rows"], settings_["width"]))
