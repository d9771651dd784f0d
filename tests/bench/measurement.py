"""All that is measured of one data set: StreamSVM's jobs and commands, LIBLINEAR's program and the peers, in turn."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from streamsvm.storage.blocks.manifest import read_manifest
from tests.bench import commands, contenders, jobs, reading
from tests.bench.contenders import C
from tests.bench.curve import LEVELS, REPEATS, Point, median_or_none, median_spent_to
from tests.bench.peers import PEERS
from tests.bench.peers.liblinear import DEFAULT_EPS, setting
from tests.bench.peers.measure import Measured, measure
from tests.bench.prepared import Prepared
from tests.bench.usage import Spent, median_spent
from tests.reference.optima import GAPS, OPTIMA

JUDGED = (1e-3, 1e-4)
# Certifies the optimum where none is known.
_EXACT = {"C": C, "tolerance": None, "relative_gap": 1e-6, "max_passes": 10**6, "max_seconds": 600.0}


@dataclass
class Comparison:
    """Measurements of one data set; each list has an entry a repeat.

    optimum      least objective known, at most `optimum_gap` (relative) above the least there is
    cache_bytes  of every StreamSVM job
    jobs         a job for each level that was asked for
    first_jobs   by level: on a dataset that no job has kept rows of
    peers        by name
    commands     by level
    """

    name: str
    data: Prepared
    cache_bytes: int
    optimum: float
    optimum_gap: float
    jobs: list[dict[float, jobs.Finished]] = field(default_factory=list)
    first_jobs: dict[float, list[jobs.Finished]] = field(default_factory=dict)
    peers: dict[str, list[Measured]] = field(default_factory=dict)
    ingests: list[commands.Command] = field(default_factory=list)
    commands: dict[float, list[commands.Command]] = field(default_factory=dict)
    readings: list[reading.Reading] = field(default_factory=list)

    def next_job(self, level: float) -> Spent | None:
        """A job on the dataset as it is: start, training, certificates. None if the level was not certified."""
        return median_spent([_certified(done, level, "spent") for done in self.jobs])

    def training(self, level: float) -> Spent | None:
        """The same without the start of its processes."""
        return median_spent([_certified(done, level, "training") for done in self.jobs])

    def whole_run(self, level: float) -> Spent | None:
        """Text to certified model, in two steps: ingest, then the first job on what it made."""
        job = median_spent([job.spent if job.result["converged"] else None for job in self.first_jobs.get(level, ())])
        return None if job is None else self.ingest + job

    def command(self, level: float) -> Spent | None:
        """Text to certified model by `streamsvm train`; None if it did not come to the level."""
        several = self.commands[level]
        return median_spent([one.spent if one.output["result"]["converged"] else None for one in several])

    @property
    def ingest(self) -> Spent:
        found = median_spent([command.spent for command in self.ingests])
        assert found is not None
        return found

    def peer(self, name: str, level: float) -> Spent | None:
        """Training of a peer until its objective was within `level` of the optimum."""
        return median_spent_to([found.points for found in self.peers[name]], self.optimum, level)

    @property
    def reading_seconds(self) -> float | None:
        return median_or_none([found.seconds for found in self.readings])

    @property
    def default_training(self) -> Spent | None:
        """LIBLINEAR's at its default tolerance."""
        return median_spent([found.spent_on(setting(DEFAULT_EPS)) for found in self.peers["LIBLINEAR"]])

    @property
    def liblinears_whole_run(self) -> Spent | None:
        """LIBLINEAR from text to model at its default tolerance."""
        trained = self.default_training
        if not self.readings or trained is None:
            return None
        return median_spent([found.whole or Spent(found.seconds + trained.seconds) for found in self.readings])

    def curves(self) -> dict[str, list[tuple[Point, ...]]]:
        """Return a curve for each repeat of StreamSVM and of each peer."""
        own = [contenders.points(done) for done in self.jobs]
        return {"streamsvm": own, **{name: [found.points for found in several] for name, several in self.peers.items()}}


def _certified(done: dict[float, jobs.Finished], level: float, what: str) -> Spent | None:
    job = done.get(level)
    return getattr(job, what) if job and job.result["converged"] else None


def compare(name: str, data: Prepared) -> Comparison:
    """Measure StreamSVM and all peers on a data set, REPEATS times in turn."""
    dataset = data.directory / "dataset"
    commands.ingest_command(data.text, dataset)
    found = Comparison(name, data, jobs.tenth(read_manifest(dataset))[0], *_optimum(name, dataset))
    for _ in range(REPEATS):
        _measure_streamsvm(found, dataset)
        for peer in PEERS:
            # A little below the last level, which the optimum found afterwards may lower.
            enough = found.optimum * (1 + 0.8 * LEVELS[-1])
            found.peers.setdefault(peer, []).append(measure(peer, data, C, enough))
        if found.peers["LIBLINEAR"][-1].points:
            found.readings.append(reading.read(data, C))
    return _with_best_optimum(found)


def _optimum(name: str, dataset: Path) -> tuple[float, float]:
    known = OPTIMA.get((name, C))
    if known is not None:
        return known, GAPS[name, C]
    certificate = jobs.train(dataset, cache_bytes=read_manifest(dataset).decoded_bytes // 2, **_EXACT).certificate
    return certificate["primal_objective"], certificate["relative_duality_gap"]


def _with_best_optimum(found: Comparison) -> Comparison:
    """Whoever came lowest has shown that the optimum is no higher."""
    dual = found.optimum * (1 - found.optimum_gap)
    everything = (point.objective for curves in found.curves().values() for curve in curves for point in curve)
    found.optimum = min(found.optimum, *everything)
    found.optimum_gap = max(1 - dual / found.optimum, 0.0)
    return found


def _measure_streamsvm(found: Comparison, dataset: Path) -> None:
    again = found.data.directory / "again"
    found.ingests.append(commands.ingest_command(found.data.text, again))
    for level in JUDGED:
        job = contenders.job(again, found.cache_bytes, level)
        found.first_jobs.setdefault(level, []).append(job)
    shutil.rmtree(again)
    found.jobs.append(contenders.climb(dataset, found.cache_bytes))
    for level in JUDGED:
        options = ("-C", f"{C:g}", "--tolerance", "none", "--relative-gap", f"{level:g}", "--max-passes", "1000000")
        bound = ("--max-seconds", f"{contenders.MOST_SECONDS:g}")
        command = commands.train_command(found.data.text, found.cache_bytes, *options, *bound)
        found.commands.setdefault(level, []).append(command)
