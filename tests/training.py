"""Reader and trainer in one process, taking turns: no threads, no sleeping, the same files as a real run."""

import json
from dataclasses import dataclass
from pathlib import Path

from reader.process import Reader
from service.jobs import JobSpec
from service.problem import JobPlan
from service.run import prepare_run
from storage.cores import usable_cores
from storage.csr import Array
from storage.dataset import Dataset
from storage.objective import REGRESSION
from storage.plan import plan_cache
from storage.state import State, open_state
from trainer.process import Trainer


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
    """Lay out a run directory as the worker does; `settings` are a job's fields, C_negative, and `checkpoints`."""
    checkpoints = settings.pop("checkpoints", None)
    manifest = Dataset(dataset).manifest
    C_negative = settings.pop("C_negative", None)
    spec = JobSpec(**{"dataset": "test", "pace": "fixed", "cache_bytes": cache_bytes, **settings})
    cache = plan_cache(cache_bytes, manifest.longest_row + (spec.bias is not None))
    labels = (None, None)
    if spec.loss not in REGRESSION:
        labels = (max(manifest.labels) if positive is None else positive, min(manifest.labels))
    plan = JobPlan(spec, manifest, *labels, spec.C, C_negative or spec.C, cache, usable_cores())
    prepare_run(run, plan, dataset, checkpoints)


def train(run: Path, dataset: Path, cache_bytes: int, positive: float | None = None, **settings: object) -> Outcome:
    """Train to the stop rule in this process."""
    write_run(run, dataset, cache_bytes, positive, **settings)
    reader = Reader(run)
    passes, result = to_the_end(run, reader)
    reader.shutdown()
    settings_ = json.loads((run / "run.json").read_text())["trainer"]
    return Outcome(passes, result, open_state(run, settings_["n_rows"], settings_["width"]))


def to_the_end(run: Path, reader: Reader) -> tuple[list[dict], dict]:
    """Train with this reader to the stop rule; what each pass and the result came to."""
    while reader.step():
        pass
    cache = reader.cache_reader()
    trainer = Trainer(run, cache, wait=lambda _: reader.step())
    passes = []
    while trainer.stop_reason is None:
        passes.append(trainer.step())
    trainer.shutdown()
    assert reader.is_finished
    cache.close()
    return passes, trainer.result()
