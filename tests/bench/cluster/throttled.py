"""Reading in and passes on one node and on two, each with a slow disk of its own: what more disks bring."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from streamsvm.reader.options import InputOptions
from streamsvm.service.datasets.forgetting import forget
from streamsvm.service.datasets.ingesting import Ingesting
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.service.local import Training
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.manifest import read_manifest
from tests.bench.generate import parse_size
from tests.bench.prepared import prepare_generated, size_limit
from tests.bench.report import cell, header, prose, row
from tests.ray_nodes import Nodes

RATE = 5_000_000  # bytes a second of each disk, either way
DISK_BYTES = 1 << 30
_GROUPS = Path("/sys/fs/cgroup/blkio")
_UNUSABLE = "Not measured: needs root, loop devices and version 1 control groups of block devices."


def run() -> Iterator[str]:
    """Lines of Markdown."""
    try:
        (_GROUPS / "streamsvm-bench-probe").mkdir()
        (_GROUPS / "streamsvm-bench-probe").rmdir()
    except OSError:
        yield _UNUSABLE
        return
    size = min(size_limit(), parse_size("1GB"))
    yield from prose(
        f"""{size / 1e6:.0f} MB of generated text; each node's blocks on an ext4 image of its own, {RATE / 1e6:.0f} MB/s
        either way by a control group; the text is on a disk without a limit. *reading in*: `file://`, each node its
        part, until the dataset is ready. *pass*: bytes of blocks read a second by a job of one round and its
        certificate, all of it; it keeps no rows on disk (`spill` false), cache an eighth of the rows. One run."""
    )
    yield from header("machines", "reading in, s", "blocks, MB", "pass, MB/s", words=0)
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory, ExitStack() as stack:
        work = Path(directory)
        text = prepare_generated(work / "data", size).text
        devices = [stack.enter_context(_disk(work, f"node{number}")) for number in (1, 2)]
        stack.enter_context(_throttled(devices))
        nodes = Nodes(work / "disks", 2)
        stack.callback(nodes.close)
        found = {count: _measure(work / f"{count}", text, count, nodes.address) for count in (1, 2)}
    for machines, figures in found.items():
        yield row(machines, *map(cell, figures))
    (one, _, slow), (two, _, fast) = found.values()
    yield ""
    yield f"Two machines read in {one / two:.2f} times as fast as one, and a pass {fast / slow:.2f} times (1.8 asked)."


def _measure(work: Path, text: Path, machines: int, address: str) -> tuple[float, float, float]:
    """Seconds of reading in, megabytes of blocks, megabytes a second of a pass."""
    work.mkdir()
    settings, dataset = Settings(work / "data", ray_address=address), work / "dataset"
    began = time.perf_counter()
    with Ingesting([f"file://{text}"], dataset, settings, InputOptions(), machines=machines) as ingesting:
        ingesting.wait()
    seconds = time.perf_counter() - began
    manifest = read_manifest(dataset)
    own = {"machines": machines, "cache_bytes": manifest.decoded_bytes // 8 // machines, "max_passes": 1}
    spec = parse_spec({"dataset": "bench", "bias": None, **own, "tolerance": None, "spill": False})
    lines: list[dict] = []

    def report(_progress: dict, history: list[dict]) -> None:
        lines[:] = history

    (work / "job").mkdir()
    Training(work / "job", dataset, settings, report).all_lanes(plan_job(spec, manifest))
    rate = lines[-1]["read_bytes"] / lines[-1]["elapsed_seconds"]
    forget(dataset, settings, waits=True)
    return seconds, manifest.stored_bytes / 1e6, rate / 1e6


@contextmanager
def _disk(work: Path, name: str) -> Iterator[str]:
    """The number of a device whose file system is mounted as a node's directory."""
    image, place = work / f"{name}.img", work / "disks" / name
    place.mkdir(parents=True)
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    _do("mkfs.ext4", "-q", image)
    _do("mount", "-o", "loop", image, place)
    try:
        device = place.stat().st_dev
        yield f"{device >> 8}:{device & 255}"
    finally:
        _do("umount", "-l", place)


@contextmanager
def _throttled(devices: list[str]) -> Iterator[None]:
    """This process, and those it starts, in a group that may move so many bytes a second on each."""
    group = _GROUPS / "streamsvm-bench"
    group.mkdir(exist_ok=True)
    for device in devices:
        for way in ("read", "write"):
            (group / f"blkio.throttle.{way}_bps_device").write_text(f"{device} {RATE}")
    (group / "cgroup.procs").write_text("0")
    try:
        yield
    finally:
        (_GROUPS / "cgroup.procs").write_text("0")


def _do(*command: object) -> None:
    subprocess.run(list(map(str, command)), check=True)
