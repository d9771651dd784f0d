"""Rows that come and go (Yu et al., section 6.3): what a warm start takes, and what a job from scratch does."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

from streamsvm.reader.ingest.append import append_rows, remove_block
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.lanes.warm_start import SharedRows, warm_up
from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.rows import decoded_row_cache
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.row_runs import shared_rows
from streamsvm.storage.run.checkpoint import newest_checkpoint
from streamsvm.storage.run.state import State
from tests.bench import jobs
from tests.bench.curve import REPEATS
from tests.bench.prepared import prepare_generated, prepare_real, size_limit
from tests.bench.real_data import is_there
from tests.bench.report import header, prose, row
from tests.bench.usage import CORES, Spent, Stopwatch, own_core_seconds

C = 1.0
LARGEST = 200_000_000  # bytes of generated text
GAPS = (1e-3, 1e-4)
NEW_SHARE = 0.1
_LINES_AT_ONCE = 1000


@dataclass(frozen=True)
class Before:
    """The job to start from: where its checkpoints are, and the rows it was trained on."""

    checkpoints: Path
    runs: Array


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        f"Hinge loss, C = {C:g}, no bias, cache a tenth of the decoded data, until the gap is certified; medians of "
        f"{REPEATS} in turn, {CORES} cores. *came*: a job had trained on nine tenths of the rows to the same gap, then "
        "the rest was added. *went*: one had trained on all of them, then blocks with a tenth were removed. Seconds "
        "are those of all that is done: the start, in which alpha and w are taken over, or w is made, training, and "
        "certificates. Nothing is left of rows that were kept for the next job."
    )
    yield from header("data", "rows", "to", "from scratch, s", "core s", "warm, s", "core s", "of it", words=3)
    for name in ("generated", "imdb.train", "a9a"):
        with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
            yield from _rows(Path(directory), name)


def _rows(directory: Path, name: str) -> Iterator[str]:
    if name != "generated" and not is_there(name):
        yield row(name, *["not available"] * 7)
        return
    place = directory / "data"
    size = min(size_limit(), LARGEST)
    data = prepare_generated(place, size) if name == "generated" else prepare_real(place, name)
    for gap in GAPS:
        dataset = directory / f"dataset.{gap:g}"
        n_first = round(data.n_rows * (1 - NEW_SHARE))
        ingest(lines_of(data.text, 0, n_first), dataset)
        before = job_before(dataset, directory / f"came.{gap:g}", gap)
        append_rows(lines_of(data.text, n_first, data.n_rows), dataset, InputOptions(), Limits(), CORES)
        yield _line(name, "came", gap, dataset, before)
        before = job_before(dataset, directory / f"went.{gap:g}", gap)
        _remove_rows(dataset, round(data.n_rows * NEW_SHARE))
        yield _line(name, "went", gap, dataset, before)


def lines_of(text: Path, first: int, end: int) -> Iterator[bytes]:
    """The lines of a text from `first` to before `end`, in chunks."""
    with text.open("rb") as file:
        lines = islice(file, first, end)
        while several := b"".join(islice(lines, _LINES_AT_ONCE)):
            yield several


def _remove_rows(dataset: Path, n_rows: int) -> None:
    """Blocks from the first on, until so many have gone."""
    least = Dataset(dataset).manifest.n_rows - n_rows
    while (manifest := Dataset(dataset).manifest).n_rows > least:
        remove_block(dataset, manifest.blocks[0].number)


def job_before(dataset: Path, checkpoints: Path, gap: float) -> Before:
    """Train on what there is."""
    checkpoints.mkdir()
    _train(dataset, gap, checkpoints)
    return Before(checkpoints, Dataset(dataset).row_runs())


def _train(dataset: Path, gap: float, checkpoints: Path | None = None, before: Before | None = None) -> Spent:
    """All that was spent on a job."""
    decoded_row_cache.release(dataset)
    cache_bytes, _ = jobs.tenth(Dataset(dataset).manifest)
    fields = {"cache_bytes": cache_bytes, "tolerance": None, "relative_gap": gap, "max_passes": 1000, "C": C}
    taken = Spent(0.0, 0.0)

    def begins(state: State) -> None:
        nonlocal taken
        watch = Stopwatch(own_core_seconds)
        assert before is not None
        take_over(state, dataset, before)
        taken = watch.lap()

    done = jobs.train(dataset, checkpoints, begins if before else None, **fields)
    if not done.result["converged"]:
        raise RuntimeError(f"not at a gap of {gap:g}")
    return done.spent + taken


def take_over(state: State, dataset: Path, before: Before) -> None:
    """Fill the state of a job that begins, as a worker does."""
    shared = shared_rows(before.runs, Dataset(dataset).row_runs())
    w_holds = int(shared[:, 2].sum()) == int(before.runs[:, 1].sum())
    checkpoint = newest_checkpoint(before.checkpoints)
    assert checkpoint is not None
    plan = plan_job(parse_spec({"dataset": "bench", "bias": None, "C": C}), read_manifest(dataset))
    warm_up(state, plan, C, checkpoint, SharedRows(shared, w_holds))


def _line(name: str, what: str, gap: float, dataset: Path, before: Before) -> str:
    ways: dict[str, list[Spent]] = {"scratch": [], "warm": []}
    for _ in range(REPEATS):
        ways["scratch"].append(_train(dataset, gap))
        ways["warm"].append(_train(dataset, gap, before=before))
    return line(name, what, gap, *ways.values())


def line(name: str, what: str, gap: float, scratch: list[Spent], warm: list[Spent]) -> str:
    """A row of the table: the seconds of both, and how many of those from scratch a warm start takes."""
    seconds = [median(each.seconds for each in way) for way in (scratch, warm)]
    cores = [f"{median(each.core_seconds or 0.0 for each in way):.1f}" for way in (scratch, warm)]
    share = f"{seconds[1] / seconds[0]:.2f}"
    return row(name, what, f"{gap:.0e}", f"{seconds[0]:.2f}", cores[0], f"{seconds[1]:.2f}", cores[1], share)
