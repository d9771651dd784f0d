"""Acceptor sites of C. elegans: strings whose features are made on the way, against the same expanded beforehand."""

from __future__ import annotations

import bz2
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from liblinear import liblinear as binding
from scipy import sparse
from sklearn.metrics import roc_auc_score

from streamsvm.reader.ingest.run import ingest, read_chunks
from streamsvm.reader.options import InputOptions
from streamsvm.service.jobs.fields.features import asked_maps
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.features.maps import FeatureMaps, features_of
from streamsvm.storage.features.visits import Visited
from streamsvm.storage.machine.child import keep_freed_memory
from streamsvm.storage.rows.segment import Segment, packed_bytes
from tests.bench import commands, jobs
from tests.bench.memory import Peak
from tests.bench.peers.liblinear import trained
from tests.bench.report import cell, header, prose, row
from tests.bench.usage import Stopwatch, own_core_seconds
from tests.reference.data import DATA

FILE = DATA / "celegans_acceptor.fasta.bz2"
HELD_OUT = 0.2
C, RELATIVE_GAP = 1.0, 1e-3
MAPS = "weighted_degree"
MOST_DIFFERENCE, MOST_BYTES_A_BASE, LEAST_MADE = 0.002, 0.3, 200e6


def run() -> Iterator[str]:
    """Lines of Markdown."""
    if not FILE.is_file():
        yield f"Not measured: {FILE.name} is not there."
        return
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        own, held_out, labels = _parted(Path(directory))
        ingest([own.read_bytes()], Path(directory) / "d", InputOptions("fasta"))
        ingest([held_out.read_bytes()], Path(directory) / "t", InputOptions("fasta", shuffle="no"))
        dataset = Dataset(Path(directory) / "d")
        manifest = dataset.manifest
        maps = asked_maps(parse_spec({"dataset": "d", "bias": None, "features": [MAPS]}), dataset)
        speed = made_a_second(dataset, maps)
        cache, _ = jobs.tenth(manifest)
        model = _trained(
            own, cache, "--format", "fasta", "--features", MAPS, "-C", f"{C:g}", "--tolerance", "none",
            "--relative-gap", f"{RELATIVE_GAP:g}",
        )  # fmt: skip
        values = np.concatenate([p.decision_values for p in _predicted(model, held_out)])
        auc = roc_auc_score(labels, values if model.predictor.classes[0] == 1.0 else -values)
        yield from _table(manifest, model, auc, speed, cache)
        yield from _expanded(dataset, Dataset(Path(directory) / "t"), maps, auc)


@dataclass(frozen=True)
class Trained:
    """The command from file to model, and the model read back."""

    command: commands.Command
    predictor: Predictor


def _trained(file: Path, cache_bytes: int, *options: str) -> Trained:
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        model = Path(directory) / "model.npz"
        command = commands.checked(commands.train_words(file, model, cache_bytes, *options))
        with model.open("rb") as stored:
            return Trained(command, Predictor(MODEL_FORMATS["npz"].read(stored)))


def _predicted(model: Trained, file: Path):
    with file.open("rb") as source:
        yield from model.predictor.predict_text(read_chunks(source), options=InputOptions("fasta"))


def _parted(directory: Path) -> tuple[Path, Path, np.ndarray]:
    """Files of the rows to train on and of those held out, at random, and the labels of these."""
    entries = bz2.decompress(FILE.read_bytes()).split(b">")[1:]
    is_out = np.random.default_rng(0).random(len(entries)) < HELD_OUT
    paths = directory / "own.fasta", directory / "held_out.fasta"
    for path, wanted in zip(paths, (False, True), strict=True):
        path.write_bytes(b"".join(b">" + each for each, out in zip(entries, is_out, strict=True) if out == wanted))
    labels = [1 if b"label=-1" not in each else -1 for each, out in zip(entries, is_out, strict=True) if out]
    return *paths, np.array(labels)


def made_a_second(dataset: Dataset, maps: FeatureMaps) -> float:
    """Features made a second on one core, squared norms and copying the strings included."""
    keep_freed_memory()  # as trainers do
    rows = dataset.piece(dataset.pieces(0)[0]).rows
    n = len(rows)
    segment = Segment.unlabelled(np.zeros(n), rows.indptr.astype(np.int32), rows.indices, rows.values)
    order = np.random.default_rng(0).permutation(n).astype(np.int32)
    best = 0.0
    for _ in range(20):
        began = time.perf_counter()
        made = sum(len(part.indices) for part, _ in Visited(maps).batches(segment, order))
        best = max(best, made / (time.perf_counter() - began))
    return best


def _table(manifest: Manifest, model: Trained, auc: float, speed: float, cache: int) -> Iterator[str]:
    length = manifest.input["length"] if manifest.input else 0
    a_base = manifest.stored_bytes / (manifest.n_rows * length)
    yield from prose(
        f"{manifest.n_rows:,} strings of {length} bases, {HELD_OUT:.0%} more held out at random; hinge loss, C = "
        f"{C:g}, no bias; weighted degree 8.  `streamsvm train FILE --features "
        f"{MAPS} --relative-gap {RELATIVE_GAP:g}`, cache {cache >> 10} KiB, a tenth of the rows as they are stored. "
        "One run."
    )
    yield from header("", "here", "asked", words=1)
    yield row("bytes in blocks a base", cell(a_base), f"<= {MOST_BYTES_A_BASE}")
    yield row("features made a second and core, millions", cell(speed / 1e6), f">= {LEAST_MADE / 1e6:.0f}")
    yield row("seconds, text to model", cell(model.command.seconds), "")
    yield row("core seconds", cell(model.command.spent.core_seconds), "")
    yield row("peak of memory, MiB", model.command.peak_bytes >> 20, "")
    yield row(
        "relative duality gap", f"{model.command.output['result']['certificate']['relative_duality_gap']:.1e}", ""
    )
    yield row("area under the curve, rows held out", f"{auc:.5f}", "")
    yield ""


def _expanded(dataset: Dataset, held_out: Dataset, maps: FeatureMaps, auc: float) -> Iterator[str]:
    """LIBLINEAR on the features made beforehand."""
    peak, watch = Peak(), Stopwatch(own_core_seconds)
    X, y = _matrix(dataset, maps)
    expanding = watch.lap()
    problem = binding.problem(y, X, -1)
    n_values, width = X.nnz, X.shape[1]
    del X
    copying = watch.lap()
    w, spent = trained(problem, f"-s 3 -c {C!r} -e 0.1 -B -1 -q")
    memory = peak.take()
    del problem
    X_test, y_test = _matrix(held_out, maps)
    other = roc_auc_score(y_test, X_test @ np.pad(w, (0, width - len(w))))
    decoded = packed_bytes(dataset.manifest.n_rows, n_values)
    yield from header("", "on the way", "expanded beforehand")
    yield row(
        "bytes of a pass, from the cache or disk, MB", cell(dataset.manifest.decoded_bytes / 1e6), cell(decoded / 1e6)
    )
    yield row("area under the curve", f"{auc:.5f}", f"{other:.5f}")
    yield row(
        "LIBLINEAR: seconds to expand, to copy, to train",
        "",
        f"{expanding.seconds:.3g}, {copying.seconds:.3g}, {spent.seconds:.3g}",
    )
    yield row("LIBLINEAR: peak of memory, MiB", "", memory >> 20)
    yield ""
    kept = "**Met**" if abs(auc - other) <= MOST_DIFFERENCE else "**Missed**"
    yield from prose(f"{kept}: the areas differ by {auc - other:+.5f}, at most {MOST_DIFFERENCE} was asked.")


def _matrix(dataset: Dataset, maps: FeatureMaps) -> tuple[sparse.csr_matrix, np.ndarray]:
    """All rows, mapped, and their labels -1 and +1."""
    parts, labels = [], []
    for block in range(len(dataset.manifest.blocks)):
        for location in dataset.pieces(block):
            rows = dataset.piece(location).rows
            for begin, end in pairwise([*range(0, len(rows), 2000), len(rows)]):
                start, stop = rows.indptr[begin], rows.indptr[end]
                made = maps.apply(
                    features_of(rows.indptr[begin : end + 1] - start, rows.indices[start:stop], rows.values[start:stop])
                )
                parts.append(sparse.csr_matrix((made.values, made.indices, made.indptr), (end - begin, maps.width)))
            labels.append(np.where(rows.label > 0, 1.0, -1.0))
    return sparse.vstack(parts, "csr").astype(np.float64), np.concatenate(labels)
