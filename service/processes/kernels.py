"""The kernels of ordinary jobs, compiled once, by two processes side by side: none is compiled by both.

python -m streamsvm.service.processes.kernels             compiles them, with a bar
python -m streamsvm.service.processes.kernels reading     one half: what reads data in; `training` is the other half

numba keeps them beside the sources, or where NUMBA_CACHE_DIR says; `are_compiled` looks there. Other kernels are
compiled when a job needs them; deploy/warm.py tries everything.
"""

import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from streamsvm.service.errors import DIED, ServiceError
from streamsvm.storage.machine.child import child_environment, die_with_parent
from streamsvm.storage.machine.kernel_sources import TREE, stamp_of

Report = Callable[[int, int], None]  # steps done, steps in all

_BAR = 30
# The last kernel of each half, and the slowest.
WITNESSES = {
    "reader/ingest/numbering/renumber_kernel.py": "count",
    "reader/parsers/text/words_kernel.py": "hash_documents",
    "storage/rows/csr.py": "row_dots",
    "trainer/kernels/hinge.py": "visit_rows",
}


def are_compiled(tree: Path = TREE) -> bool:
    """Whether all kernels are compiled from the present sources. Needs no numba.

    True also where numba would keep them elsewhere: nobody can say then.
    """
    mark = stamp_of(tree).encode()
    return all(_is_compiled(tree / source, kernel, mark) for source, kernel in WITNESSES.items())


def compile_kernels(report: Report) -> float:
    """Returns the seconds that it took: about one where they are compiled already. Raises ServiceError."""
    began, done, every = time.monotonic(), 0, sum(STEPS.values())
    report(0, every)
    children = [_start(half) for half in HALVES]
    try:
        for _ in _lines(child.stdout for child in children if child.stdout):
            done += 1
            report(done, every)
        if any(child.wait() for child in children):
            raise ServiceError(DIED, "the kernels could not be compiled", "What was said above says why.")
    finally:
        for child in children:
            child.kill()
            child.wait()
            if child.stdout:
                child.stdout.close()
    return time.monotonic() - began


def show_bar(stream: IO[str]) -> Report:
    """For a person: a bar that fills on a terminal, a line elsewhere."""

    def report(done: int, every: int) -> None:
        if stream.isatty():
            filled = _BAR * done // every
            bar = "#" * filled + "." * (_BAR - filled)
            stream.write(f"\r\033[Kcompiling kernels, once  [{bar}] {done}/{every}" + "\r\033[K" * (done == every))
        elif not done:
            stream.write("compiling kernels, once\n")
        stream.flush()

    return report


def _is_compiled(source: Path, kernel: str, mark: bytes) -> bool:
    """Whether numba's index of a kernel of this file is there, with the mark of its sources in it."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    beside = source.parent / "__pycache__"
    if not given and not os.access(beside if beside.exists() else source.parent, os.W_OK, effective_ids=True):
        return True
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    folders = Path(given).glob(f"{source.parent.name}_*") if given else [beside]
    found = [index for folder in folders for index in folder.glob(f"{source.stem}.{kernel}-*.{version}.nbi")]
    return any(mark in index.read_bytes() for index in found)


def _start(half: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "streamsvm.service.processes.kernels", half]
    return subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, env=child_environment())


def _lines(streams: Iterator[IO[bytes]]) -> Iterator[bytes]:
    """The lines of these streams, as they come, until all have ended."""
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                if line := key.fileobj.readline():  # type: ignore[union-attr]
                    yield line
                else:
                    selector.unregister(key.fileobj)


def _reading() -> Iterator[None]:
    """Parses, shuffles and encodes some rows, and decodes them; numbers features anew, as only wide data has them."""
    import numpy as np  # noqa: PLC0415 - slow to import, and the process that shows the bar does without

    from streamsvm.reader.ingest.numbering.renumber import FeatureList  # noqa: PLC0415
    from streamsvm.reader.ingest.numbering.renumber_kernel import renumber  # noqa: PLC0415
    from streamsvm.reader.ingest.run import ingest  # noqa: PLC0415
    from streamsvm.reader.limits import Limits  # noqa: PLC0415
    from streamsvm.reader.options import InputOptions  # noqa: PLC0415
    from streamsvm.reader.parsers import open_parser  # noqa: PLC0415
    from streamsvm.reader.parsers.label_names import LabelNames  # noqa: PLC0415
    from streamsvm.reader.parsers.libsvm.parser import LibsvmParser  # noqa: PLC0415
    from streamsvm.storage.blocks.dataset import Dataset  # noqa: PLC0415
    from streamsvm.storage.rows.csr import INDEX  # noqa: PLC0415

    text = b"".join(b"%+d %d:0.5 %d:1\n" % ((-1) ** row, row + 1, row + 9) for row in range(64))
    yield from (None for _ in LibsvmParser("auto", Limits(), 1).parse_chunks([text]))
    with tempfile.TemporaryDirectory(prefix="streamsvm-kernels-") as directory:
        ingest([text], Path(directory) / "dataset", threads=1)
        yield
        dataset = Dataset(Path(directory) / "dataset")
        for location in dataset.pieces(0):
            dataset.piece(location)
        yield
    renumber(np.empty(0, INDEX), np.empty(0, INDEX))
    FeatureList(0, np.ones(1, INDEX)).apply(np.ones(1, INDEX))
    yield
    for format_, line in (("text", "%+d\ta word or two\n"), ("fasta", ">label=%+d\nACGTN\n")):
        lines = "".join(line % label for label in (-1, 1)).encode()
        parser = open_parser(InputOptions(format_), Limits(), LabelNames("auto"), 1, Path())
        yield from (None for _ in parser.parse_chunks([lines]))


def _maps() -> Iterator[None]:
    """Makes features of no rows with each map."""
    import numpy as np  # noqa: PLC0415 - as above

    from streamsvm.storage.features import FEATURE_MAPS  # noqa: PLC0415
    from streamsvm.storage.features.maps import FeatureMaps  # noqa: PLC0415
    from streamsvm.storage.features.rows import Shape  # noqa: PLC0415
    from streamsvm.storage.features.statistics import FeatureStatistics  # noqa: PLC0415
    from streamsvm.storage.features.visits import Visited, with_features  # noqa: PLC0415
    from streamsvm.storage.rows.csr import INDEX, VALUE  # noqa: PLC0415
    from streamsvm.storage.rows.segment import CODE, NORM, OFFSET, ROW_ID, Segment  # noqa: PLC0415

    types = {
        "row_id": ROW_ID, "class_code": CODE, "fold": CODE, "Qii": NORM, "indptr": OFFSET, "indices": INDEX,
        "values": VALUE,
    }  # fmt: skip
    columns = [np.zeros(int(name == "indptr"), dtype) for name, dtype in types.items()]
    known, order = FeatureStatistics.none().of_width(4), np.empty(0, np.int32)
    for name, kind in FEATURE_MAPS.items():
        maps = FeatureMaps.planned(Shape(4, 0, 4 * kind.of_strings), [(name, kind())]).fitted(known)
        with_features(Segment(*columns), maps)
        yield
    # Rows of the cache cannot be written to, those that are read in can.
    for is_writable in (True, False):
        for column in columns:
            column.flags.writeable = is_writable
        Visited(maps).mapped(Segment(*columns), order, 0)
    yield


def _training() -> Iterator[None]:
    """Calls each kernel with no rows."""
    import numpy as np  # noqa: PLC0415 - as above

    from streamsvm.reader.certificate.certificate_kernel import dots_and_sums  # noqa: PLC0415
    from streamsvm.reader.stream.stream_kernel import account, classify  # noqa: PLC0415
    from streamsvm.storage.rows.cache_plan import PAGE  # noqa: PLC0415
    from streamsvm.storage.rows.csr import INDEX, INDPTR, VALUE, row_dots  # noqa: PLC0415
    from streamsvm.storage.rows.segment import OFFSET, ROW_ID, SegmentBuilder  # noqa: PLC0415
    from streamsvm.trainer.kernels.coordinate import GAP  # noqa: PLC0415
    from streamsvm.trainer.kernels.hinge import Dual, Notes, Weights, move_on, visit_rows  # noqa: PLC0415
    from streamsvm.trainer.kernels.order import random_order  # noqa: PLC0415
    from streamsvm.trainer.newton.system import compile_ahead  # noqa: PLC0415
    from streamsvm.trainer.problem.tasks import Tasks  # noqa: PLC0415

    def none(dtype: object) -> np.ndarray:
        return np.empty(0, dtype)  # type: ignore[call-overload]

    alpha, w = np.zeros(1), np.zeros(1)
    builder = SegmentBuilder(PAGE)
    rows, order = builder.rows, random_order(0, np.random.default_rng(0))
    yield
    table, notes = Tasks.single("hinge", 1.0).table, Notes(none(np.float32), none(np.float64), none(np.float32))
    visit_rows(order, rows.columns, table, GAP, Dual(alpha, alpha), Weights(w, none(np.int64)), notes)
    yield
    move_on(alpha, alpha, 0.5)
    for picked in (order, none(np.int64)):
        builder.add(rows, picked)
        yield
    flags, kinds, m, new = none(np.bool_), none(np.uint8), np.zeros((0, 1)), none(np.int64)
    classify(rows.columns, 0, m, 0.0, 1, table.U, -1.0, flags, flags, alpha[:, np.newaxis], kinds, new)
    yield
    account(none(ROW_ID), kinds, np.zeros(1, OFFSET), 1, flags, kinds, kinds)
    yield
    dots_and_sums(alpha, np.zeros(2, OFFSET), none(INDEX), none(VALUE), np.zeros(2), np.zeros(1))
    yield
    for dtype in (INDPTR, OFFSET):  # of rows read in, and of those of a problem
        row_dots(np.zeros(1, dtype), none(INDEX), none(VALUE), w, none(np.float64))
        yield
    yield from compile_ahead()
    yield from _changes()
    yield from _maps()


def _changes() -> Iterator[None]:
    """Changes of w, which several machines tell each other."""
    import numpy as np  # noqa: PLC0415 - as above

    from streamsvm.service.cluster.rounds.change_kernel import add_step  # noqa: PLC0415
    from streamsvm.service.cluster.rounds.messages import Change  # noqa: PLC0415

    w = np.zeros((4, 1))
    for difference in (w, np.ones((4, 1))):
        Change.of(difference).add_to(w)
        yield
    add_step(w.reshape(-1), np.ones(1), w.reshape(-1))
    yield


HALVES = {"reading": _reading, "training": _training}
STEPS = {"reading": 7, "training": 24}


def main() -> None:
    """Body of the process."""
    if sys.argv[1:]:
        die_with_parent()
        for _ in HALVES[sys.argv[1]]():
            print(flush=True)
        return
    seconds = compile_kernels(show_bar(sys.stderr))
    print(f"the kernels are ready ({seconds:.1f} s)")


if __name__ == "__main__":
    main()
