"""Whether compressed blocks save time: passes of block minimization from slow disks, compressed and stored raw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from streamsvm.storage.blocks.manifest import read_manifest
from tests.bench import disk
from tests.bench.papers.bm import BLOCKS, CS, METHODS, way_of
from tests.bench.papers.data import Data, cache_for, stored_raw
from tests.bench.papers.runs import NOISE, is_more, kept
from tests.bench.papers.verdict import Case, verdict
from tests.bench.report import header, prose, row
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
        "*raw*: the same blocks stored without compression, by a codec of this bench. *ratio*: raw over zstd, "
        f"undecided within {NOISE:g} times."
    )
    columns = [text for speed in SPEEDS for text in (f"zstd, {speed} MB/s", "raw", "ratio")]
    yield from header("data", "stored, MB", "raw, MB", *columns)
    cases = []
    for data in all_data:
        raw = stored_raw(data)
        sizes = [f"{read_manifest(each).stored_bytes / 1e6:.0f}" for each in (data.dataset, raw)]
        cells = []
        for speed in SPEEDS:
            seconds = [_seconds(data, each, speed, name) for each, name in ((data.dataset, "zstd"), (raw, "raw"))]
            ratio = seconds[1] / seconds[0]
            cells += [f"{seconds[0]:.2f}", f"{seconds[1]:.2f}", f"{ratio:.2f}"]
            cases.append(Case(f"{data.name} at {speed} MB/s", is_more(ratio), f"raw takes {ratio:.3g} times as long"))
        yield row(data.name, *sizes, *cells)
    yield ""
    yield from verdict(CLAIM, cases)


def _seconds(data: Data, dataset: Path, speed: int, name: str) -> float:
    manifest = read_manifest(dataset)
    fields = {
        "C": CS[data.name], "cache_bytes": cache_for(manifest, BLOCKS), "tolerance": None, "max_passes": PASSES,
        **way_of(METHODS["L-D"]),
    }  # fmt: skip
    return kept(
        "bm-compression", (data.name, name, speed), lambda: disk.throttled(dataset, speed * 10**6, fields).seconds
    )
