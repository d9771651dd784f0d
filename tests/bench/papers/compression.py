"""Whether compressed blocks save time: passes of block minimization from slow disks, compressed and stored raw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from streamsvm.storage.blocks.manifest import read_manifest
from tests.bench import disk
from tests.bench.papers.bm import BLOCKS, CS, METHODS, way_of
from tests.bench.papers.bm_runs import is_above
from tests.bench.papers.data import Data, cache_for, stored_raw
from tests.bench.papers.runs import NOISE, SEEDS, kept, seeds
from tests.bench.papers.verdict import Case, verdict
from tests.bench.report import header, prose, row, spread
from tests.bench.throttle import reason_unusable

SPEEDS = (50, 150, 500)  # MB/s
PASSES = 4
CLAIM = "compressed blocks save time."


def compression(all_data: Sequence[Data]) -> Iterator[str]:
    """Lines of Markdown."""
    yield "### Compression"
    yield ""
    if reason := reason_unusable(all_data[0].dataset):
        yield from prose(f"Not measured: {reason}.")
        return
    yield from prose(
        f"Seconds of {PASSES} passes of L-D with {BLOCKS} blocks, two processes, a disk throttled by the kernel; "
        "*raw*: the same blocks stored without compression, by a codec of this bench; the two in turn, "
        f"{seeds()}, medians ± half the range. *ratio*: raw over zstd, undecided if not all seeds agree or within "
        f"{NOISE:g} times."
    )
    columns = [text for speed in SPEEDS for text in (f"zstd, {speed} MB/s", "raw", "ratio")]
    yield from header("data", "stored, MB", "raw, MB", *columns)
    cases = []
    for data in all_data:
        raw = stored_raw(data)
        sizes = [f"{read_manifest(each).stored_bytes / 1e6:.0f}" for each in (data.dataset, raw)]
        cells = []
        for speed in SPEEDS:
            pairs = [
                [_seconds(data, each, speed, name, seed) for each, name in ((data.dataset, "zstd"), (raw, "raw"))]
                for seed in range(SEEDS)
            ]
            ratios = [each / compressed for compressed, each in pairs]
            cells += [spread(several, ".2f") for several in (*zip(*pairs, strict=True), ratios)]
            cases.append(
                Case(f"{data.name} at {speed} MB/s", is_above(ratios), f"raw {spread(ratios, '.2f')} times as long")
            )
        yield row(data.name, *sizes, *cells)
    yield ""
    yield from verdict(CLAIM, cases, _advice(cases))


def _seconds(data: Data, dataset: Path, speed: int, name: str, seed: int) -> float:
    manifest = read_manifest(dataset)
    fields = {
        "C": CS[data.name], "cache_bytes": cache_for(manifest, BLOCKS), "tolerance": None, "max_passes": PASSES,
        **way_of(METHODS["L-D"], seed=seed),
    }  # fmt: skip
    key = data.name, name, speed, seed
    return kept("bm-compression", key, lambda: disk.throttled(dataset, speed * 10**6, fields).seconds)


def _advice(cases: Sequence[Case]) -> str:
    ends = {True: "saved time", False: "cost time", None: "decided nothing"}
    told = [f"{words} in {sum(case.holds is holds for case in cases)}" for holds, words in ends.items()]
    return f"datasets are always compressed; in the {len(cases)} cases that {', '.join(told)}."
