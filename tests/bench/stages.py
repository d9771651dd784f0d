"""Where the time of StreamSVM and of LIBLINEAR's program goes: the stages of the comparison."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from tests.bench.contenders import C
from tests.bench.curve import difference
from tests.bench.jobs import PHASES
from tests.bench.measurement import JUDGED, Comparison
from tests.bench.peers.liblinear import DEFAULT_EPS, setting
from tests.bench.report import cell, header, prose, row
from tests.bench.usage import Spent, median_spent

_NOTHING = "-"


def stages_table(found: Comparison) -> Iterator[str]:
    """A row a stage; seconds, core seconds and the share of all cores that computed, for each level judged."""
    yield "### Stages"
    yield ""
    yield from prose(
        "Of a job to each level: *start* of its processes; *stream*: while rows come from disk; *sweep*: over the rows "
        "the trainer has; *certify*: all certificates. *next job*: these four, of rows that a job before has "
        "kept. *whole run*: ingest and a first job. "
        "*command*: `streamsvm train FILE --relative-gap`, model written. *busy*: core seconds over all cores' "
        "seconds. *came to*: objective at the end, relative difference to the optimum. LIBLINEAR's whole run is at "
        f"`-e {DEFAULT_EPS}`, C = {C:g}."
    )
    figures = [f"{what} {level:.0e}" for level in JUDGED for what in ("seconds to", "core seconds to", "busy to")]
    yield from header("stage", *figures)
    for phase in PHASES:
        yield row(phase, *(words for level in JUDGED for words in _cells(_phase(found, phase, level))))
    totals = {"next job": found.next_job, "whole run": found.whole_run, "command": found.command}
    yield row("ingest", *_cells(found.ingest) * len(JUDGED))
    for name, spent in totals.items():
        yield row(name, *(words for level in JUDGED for words in _cells(spent(level))))
    yield row("job came to", *(words for level in JUDGED for words in (_job_came_to(found, level), "", "")))
    yield row("command came to", *(words for level in JUDGED for words in (_command_came_to(found, level), "", "")))
    for name, spent in _liblinear(found).items():
        yield row(name, *_cells(spent) * len(JUDGED))
    yield row("LIBLINEAR came to", *(_default_came_to(found), "", "") * len(JUDGED))
    yield ""


def _phase(found: Comparison, phase: str, level: float) -> Spent | None:
    done = (job.get(level) for job in found.jobs)
    return median_spent([job.phases[phase] if job and job.result["converged"] else None for job in done])


def _liblinear(found: Comparison) -> dict[str, Spent | None]:
    read = found.reading_seconds
    return {
        "LIBLINEAR reads": None if read is None else Spent(read),
        "LIBLINEAR trains": found.default_training,
        "LIBLINEAR's whole run": found.liblinears_whole_run,
    }


def _cells(spent: Spent | None) -> tuple[str, str, str]:
    if spent is None:
        return _NOTHING, _NOTHING, _NOTHING
    return cell(spent.seconds), cell(spent.core_seconds), cell(spent.busy, ".0%")


def _job_came_to(found: Comparison, level: float) -> str:
    done = [job[level].certificate for job in found.jobs if level in job]
    return _off([certificate["primal_objective"] for certificate in done], found.optimum)


def _command_came_to(found: Comparison, level: float) -> str:
    done = [command.output["result"]["certificate"] for command in found.commands[level]]
    return _off([certificate["primal_objective"] for certificate in done], found.optimum)


def _default_came_to(found: Comparison) -> str:
    points = [point for peer in found.peers["LIBLINEAR"] for point in peer.points]
    return _off([point.objective for point in points if point.setting == setting(DEFAULT_EPS)], found.optimum)


def _off(objectives: list[float], optimum: float) -> str:
    return f"{difference(median(objectives), optimum):.1e}" if objectives else _NOTHING
