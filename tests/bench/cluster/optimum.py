"""Jobs on two to four nodes of a real Ray cluster on this machine: the optimum, its certificate, rounds and bytes.

The nodes share two cores and a disk: seconds say what rounds cost, not what more machines bring.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from streamsvm.reader.ingest.run import ingest, read_chunks
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.service.local import LocalTraining
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.manifest import read_manifest
from tests.bench.jobs import ingested
from tests.bench.prepared import prepare_generated, size_limit
from tests.bench.real_data import is_there, rows_of
from tests.bench.report import header, prose, row
from tests.ray_nodes import Nodes
from tests.reference.optima import OPTIMA

RELATIVE_GAP = 1e-4
MOST_ROUNDS, MOST_SECONDS = 100_000, 400.0
_REAL = ("imdb.train", "mnist8")
_ONE = (0.01, 1.0, 100.0)
_MANY = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5]
PARTS = (*_REAL, "generated")


def run(name: str) -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        f"""Rounds to a certified relative gap of {RELATIVE_GAP:g} (at most {MOST_SECONDS:.0f} s), cache 256 MiB
        a machine; `1` is a job without Ray on the same data. *off*: the primal objective of the certificate
        above the optimum, where that is known (`tests/reference/optima.py`), else above that of one
        machine. *weak duality*: D never falls from round to round, and is never above the least P. *sent*:
        by a machine in a round. *seconds*: of the job, with dealing out blocks to new nodes."""
    )
    if name in _REAL and not is_there(name):
        yield "Not measured: the data is not available."
        return
    figures = "rounds", "relative gap", "off", "w error", "weak duality", "sent", "seconds"
    yield from header("machines", "loss", "C", *figures, words=2)
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as work:
        dataset = Path(work) / name
        if name in _REAL:
            ingested(dataset, *rows_of(name))
        else:
            with prepare_generated(Path(work) / "text", size_limit()).text.open("rb") as text:
                ingest(read_chunks(text), dataset)
        yield from _rows(Path(work), dataset, name)


def _rows(work: Path, dataset: Path, name: str) -> Iterator[str]:
    tasks = [(loss, C) for loss in ("hinge", "squared_hinge") for C in (*_ONE, _MANY)]
    best = {}
    for machines in (None, 2, 3, 4):
        nodes = Nodes(work / f"nodes{machines}", machines) if machines else None
        try:
            for loss, C in tasks:
                yield _row(work, dataset, nodes, machines, loss, C, name, best)
        finally:
            if nodes:
                nodes.close()


def _row(work, dataset, nodes, machines, loss, C, name, best) -> str:
    results, lines, seconds = trained(work, dataset, nodes, machines, loss, C)
    worst = max(results, key=lambda each: each["certificate"]["relative_duality_gap"])
    certificate = worst["certificate"]
    key = loss, str(C)
    found = [each["certificate"]["primal_objective"] for each in results]
    known = OPTIMA.get((name, C)) if loss == "hinge" and not isinstance(C, list) else None
    optima = [known] if known else best.setdefault(key, found)
    off = max(primal / optimum for primal, optimum in zip(found, optima, strict=True)) - 1
    sent = max((each["sent_bytes"] for each in lines[-1]["machines"]), default=0) / len(lines) if lines else 0
    return row(
        machines or 1, loss, "ten values" if isinstance(C, list) else f"{C:g}", results[0]["passes"],
        f"{certificate['relative_duality_gap']:.1e}", f"{off:.1e}", f"{certificate['w_error']:.0e}",
        _weak_duality(lines) if lines else "-", f"{sent / 1e6:.2g} MB" if lines else "-", f"{seconds:.1f}",
    )  # fmt: skip


def trained(
    work: Path, dataset: Path, nodes: Nodes | None, machines: int | None, loss: str, C: float | list[float]
) -> tuple[list[dict], list[dict], float]:
    """What a job has come to in each lane, its rounds, and seconds."""
    settings = Settings(work / "data", ray_address=nodes.address if nodes else None)
    fields = {"loss": loss, "C": C, "relative_gap": RELATIVE_GAP, "tolerance": None, "max_seconds": MOST_SECONDS}
    spec = parse_spec({"dataset": "bench", "bias": None, "machines": machines, "max_passes": MOST_ROUNDS, **fields})
    history: list[dict] = []

    def report(_progress: dict, lines: list[dict]) -> None:
        history[:] = lines

    began = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=work) as own:
        models = (
            LocalTraining(Path(own), dataset, settings, report).all_lanes(plan_job(spec, read_manifest(dataset))).models
        )
    seconds = time.perf_counter() - began
    return [model.about for _, model in models], [line for line in history if "machines" in line], seconds


def _weak_duality(lines: list[dict]) -> str:
    of_lanes = zip(*(line.get("lanes", [line]) for line in lines), strict=True)
    return "held" if all(map(_holds, of_lanes)) else "**violated**"


def _holds(lane: Sequence[dict]) -> bool:
    """Of its figures after each round; but for rounding."""
    duals = [each["dual_objective"] for each in lane]
    least = min((each["primal_bound"] for each in lane if each["primal_bound"]), default=float("inf"))
    rises = all(after >= before - 1e-9 * abs(before) for before, after in pairwise(duals))
    return rises and all(least * (1 + 1e-12) >= D for D in duals)
