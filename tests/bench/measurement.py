"""All that is measured of one data set: StreamSVM's solvers, its stages and the peers, in turn, several times."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from storage.dataset import read_manifest
from tests.bench import jobs, reading
from tests.bench.curve import LEVELS, REPEATS, Point, median_or_none, median_seconds
from tests.bench.peers import PEERS
from tests.bench.peers.liblinear import DEFAULT_EPS, setting
from tests.bench.peers.measure import Measured, measure
from tests.bench.prepared import Prepared
from tests.reference.optima import GAPS, OPTIMA

Settings = dict[str, str | bool]

# The solvers that do with a tenth of the data in the cache and have a dual objective.
CONTENDERS: dict[str, Settings] = {
    "streamsvm": {},
    "streamsvm, no spill": {"spill": False},
    "streamsvm, paper": {"solver": "streamsvm_paper"},
    "sbm": {"solver": "sbm"},
    "bm": {"solver": "bm"},
}
C = 1.0
PASSES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
# What StreamSVM is asked for instead, as LIBLINEAR is for a tolerance: a pass takes it far. The others know of a gap
# only a pass later.
GAPS_ASKED = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 5e-5)
MOST_SECONDS = 60
JUDGED = (1e-3, 1e-4)
# Certifies the optimum where none is known.
_EXACT = {"C": C, "tolerance": None, "relative_gap": 1e-6, "max_passes": 200, "max_seconds": 1800.0}
_ENDLESS = {"C": C, "tolerance": None}


@dataclass
class Comparison:
    """Measurements of one data set; each list has an entry a repeat, each curve is a tuple of Points.

    optimum      least objective known, at most `optimum_gap` (relative) above the least there is
    cache_bytes  of every StreamSVM job
    curves       of the contenders, by name; seconds of StreamSVM's are from the start of its processes
    jobs         the longest job of each curve
    """

    name: str
    data: Prepared
    cache_bytes: int
    optimum: float
    optimum_gap: float
    curves: dict[str, list[tuple[Point, ...]]] = field(default_factory=dict)
    jobs: dict[str, list[jobs.Finished]] = field(default_factory=dict)
    peers: dict[str, list[Measured]] = field(default_factory=dict)
    ingests: list[jobs.Command] = field(default_factory=list)
    commands: dict[float, list[jobs.Command]] = field(default_factory=dict)
    readings: list[reading.Reading] = field(default_factory=list)

    def seconds_to(self, contender: str, level: float) -> float | None:
        """Median of when its objective was within `level` of the optimum."""
        return median_seconds(self.curves[contender], self.optimum, level)

    @property
    def ingest_seconds(self) -> float:
        return median(command.seconds for command in self.ingests)

    @property
    def certify_seconds(self) -> float:
        return median(job.seconds - job.trained_seconds for job in self.jobs["streamsvm"])

    @property
    def start_seconds(self) -> float:
        return median(job.start_seconds for job in self.jobs["streamsvm"])

    def end_to_end(self, level: float) -> float | None:
        """Text to certified model, from the stages."""
        training = self.seconds_to("streamsvm", level)
        return None if training is None else self.ingest_seconds + training + self.certify_seconds

    @property
    def reading_seconds(self) -> float | None:
        return median_or_none([found.seconds for found in self.readings])

    @property
    def default_training(self) -> float | None:
        """LIBLINEAR's training at its default tolerance."""
        return median_or_none([found.seconds_of(setting(DEFAULT_EPS)) for found in self.peers["LIBLINEAR"]])

    @property
    def whole_seconds(self) -> float | None:
        """LIBLINEAR's run from text to model at its default tolerance."""
        if None in (self.reading_seconds, self.default_training):
            return None
        sums = (found.whole_seconds or found.seconds + self.default_training for found in self.readings)
        return median(sums)


def compare(name: str, data: Prepared) -> Comparison:
    """Measure everything on a data set, REPEATS times in turn."""
    dataset = data.directory / "dataset"
    jobs.ingest_command(data.text, dataset)
    found = Comparison(name, data, jobs.tenth(read_manifest(dataset))[0], *_optimum(name, dataset))
    for _ in range(REPEATS):
        _measure_streamsvm(found, dataset)
        for peer in PEERS:
            measured = measure(peer, data, C, _enough(found))
            found.peers.setdefault(peer, []).append(measured)
            found.curves.setdefault(peer, []).append(measured.points)
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
    everything = (point.objective for curves in found.curves.values() for curve in curves for point in curve)
    found.optimum = min(found.optimum, *everything)
    found.optimum_gap = max(1 - dual / found.optimum, 0.0)
    return found


def _enough(found: Comparison) -> float:
    # A little below the last level, which the optimum found afterwards may lower.
    return found.optimum * (1 + 0.8 * LEVELS[-1])


def _measure_streamsvm(found: Comparison, dataset: Path) -> None:
    again = found.data.directory / "again"
    found.ingests.append(jobs.ingest_command(found.data.text, again))
    shutil.rmtree(again)
    for contender, settings in CONTENDERS.items():
        points, job = _curve(_stops(contender), settings, found, dataset)
        found.curves.setdefault(contender, []).append(points)
        found.jobs.setdefault(contender, []).append(job)
    for level in JUDGED:
        options = ("-C", f"{C:g}", "--tolerance", "none", "--relative-gap", f"{level:g}", "--max-passes", "200")
        command = jobs.train_command(found.data.text, found.cache_bytes, *options)
        found.commands.setdefault(level, []).append(command)


def _stops(contender: str) -> dict[str, dict[str, float]]:
    """What each of a contender's jobs stops at, by the name of its point."""
    if contender == "streamsvm":
        return {f"gap {gap:.0e}": {"relative_gap": gap, "max_passes": 200} for gap in GAPS_ASKED}
    return {f"{passes} passes": {"max_passes": passes} for passes in PASSES}


def _curve(
    stops: dict[str, dict[str, float]], settings: Settings, found: Comparison, dataset: Path
) -> tuple[tuple[Point, ...], jobs.Finished]:
    """A job for each stop: the certificate at its end is exact, unlike the figures of a running job."""
    points: list[Point] = []
    spent = 0.0
    for name, stop in stops.items():
        job = jobs.train(dataset, cache_bytes=found.cache_bytes, **_ENDLESS, **stop, **settings)
        objective = job.certificate["primal_objective"]
        points.append(Point(job.trained_seconds, objective, name))
        spent += job.seconds
        if objective <= _enough(found) or spent > MOST_SECONDS:
            break
    return tuple(points), job
