"""Compiles the kernels of those steps whose numbers, one byte each, it reads from standard input: see `kernels`.

A step calls its kernels with hardly any rows.
"""

import io
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from streamsvm.reader.certificate.certificate_kernel import dots_and_sums
from streamsvm.reader.ingest.ingest_kernel import renumber
from streamsvm.reader.ingest.renumber import FeatureList
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers import open_parser
from streamsvm.reader.parsers.values import LabelNames
from streamsvm.reader.stream.stream_kernel import account, classify
from streamsvm.service.processes.kernels import STEPS
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.features import FEATURE_MAPS
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.features.rows import FeatureStatistics, Shape
from streamsvm.storage.features.visits import Visited, with_features
from streamsvm.storage.machine.child import die_with_parent
from streamsvm.storage.models.decision import decision_values
from streamsvm.storage.rows.cache_plan import PAGE
from streamsvm.storage.rows.csr import INDEX, INDPTR, read_only
from streamsvm.storage.rows.segment import OFFSET, ROW_ID, SegmentBuilder
from streamsvm.storage.rows.segment_kernel import densify
from streamsvm.trainer.kernels.coordinate import GAP
from streamsvm.trainer.kernels.hinge import Dual, VisitNotes, Weights, move_on, visit_rows
from streamsvm.trainer.kernels.hinge_lanes import visit_lanes
from streamsvm.trainer.kernels.order import random_order
from streamsvm.trainer.newton.system_kernel import add_squares, spread_out
from streamsvm.trainer.problem.lane_kernel import differ, move_lanes, sums_of_lanes
from streamsvm.trainer.problem.objective import add_to_w, dots_of, half_squares
from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.updates.statistics import VisitSums

_BUILDER, _TABLE, _NONE = SegmentBuilder(PAGE), Tasks.single("hinge", 1.0).table, np.empty(0, np.float32)
_ROWS = _BUILDER.rows
_READ_IN = replace(_ROWS, indptr=_ROWS.indptr.astype(INDPTR))


def _storing() -> None:
    """Compile by shuffling and encoding some rows, and decoding them."""
    rows, numbers = io.BytesIO(), np.arange(65)
    for array in (np.array([64, 64]), numbers[1:], numbers, numbers[1:] - 1, np.ones(64), np.empty(0)):
        np.save(rows, array)
    with tempfile.TemporaryDirectory(prefix="streamsvm-kernels-") as directory:
        ingest([rows.getvalue()], Path(directory) / "dataset", InputOptions("batches", index_base=0), threads=1)
        dataset = Dataset(Path(directory) / "dataset")
        list(map(dataset.piece, dataset.pieces(0)))


def _parse(format_: str, text: bytes) -> None:
    list(open_parser(InputOptions(format_), InputLimits(), LabelNames("auto"), 1, Path()).parse_chunks([text]))


def _training() -> None:
    """Compile kernels of the cache, scans, certificates and predictions."""
    picked, one, w = random_order(0, np.random.default_rng(0)), np.zeros(1), np.zeros((1, 1))
    _BUILDER.add(_ROWS, picked)
    flags, kinds, m, new = np.empty(0, np.bool_), np.empty(0, np.uint8), np.zeros((0, 1)), np.empty(0, np.int64)
    classify(_ROWS.columns, 0, m, 0.0, 1, _TABLE.U, -1.0, flags, flags, w, kinds, new)
    account(np.empty(0, ROW_ID), kinds, np.zeros(1, OFFSET), 1, flags, kinds, kinds)
    densify(*_ROWS.csr, np.zeros((0, 1), np.float32))
    dots_and_sums(one, *_ROWS.csr, np.zeros(2), one)
    differ(w, w, *read_only(picked), flags)
    add_to_w(_ROWS, dots_of(_ROWS, w), w)
    decision_values(_READ_IN, one, 0.0)
    half_squares(np.zeros((1, 2)), 2)
    add_squares(picked, np.empty(0), *_ROWS.csr, np.zeros((2, 2), order="F"))
    spread_out(picked, np.empty(0), *_ROWS.csr, np.zeros((0, 2)))


def _one() -> None:
    one, order = np.zeros(1), np.empty(0, np.int32)
    dual, weights, notes = Dual(one, one), Weights(one, np.empty(0, np.int64)), VisitNotes(_NONE, np.empty(0), _NONE)
    visit_rows(order, _ROWS.columns, _TABLE, GAP, dual, weights, notes)
    move_on(one, one, 0.5)


def _several() -> None:
    w, one, order = np.zeros((1, 4)), np.zeros(4), np.empty(0, np.int32)
    visit_lanes(
        order, _ROWS.columns, _TABLE, Dual(one, one), Weights(one, np.empty(0, np.int64)), _NONE, VisitSums.none(4)
    )
    add_to_w(_ROWS, dots_of(_ROWS, w), w)
    move_lanes(w, w, one)
    sums_of_lanes(w, one)


def _other() -> None:
    """Compile kernels of feature maps, and of feature numbers of wide data."""
    known = FeatureStatistics.none().of_width(4)
    for name, kind in FEATURE_MAPS.items():
        maps = FeatureMaps.planned(Shape(4, 0, 4 * kind.of_strings), [(name, kind())]).fitted(known)
        with_features(_READ_IN, maps)
    Visited(maps).mapped(_ROWS, np.empty(0, np.int32), 0)
    FeatureList(0, np.ones(1, INDEX)).apply(np.ones(1, INDEX))
    renumber(np.empty(0, INDEX), np.empty(0, INDEX))


COMPILE: dict[str, Callable[[], None]] = {
    "text": partial(_parse, "text", b"1\ta b\n-1\tc\n"), "several": _several, "training": _training,
    "libsvm": partial(_parse, "libsvm", b"1 1:1\n-1 2:1\n"), "one": _one, "storing": _storing,
    "csv": partial(_parse, "csv", b"label,a\n1,1\n-1,2\n"),
    "fasta": partial(_parse, "fasta", b">label=1\nACGTN\n>label=-1\nACGTN\n"), "other": _other,
}  # fmt: skip


def main() -> None:
    """Body of the process."""
    die_with_parent()
    while number := os.read(0, 1):
        COMPILE[list(STEPS)[number[0]]]()
        print(flush=True)


if __name__ == "__main__":
    main()
