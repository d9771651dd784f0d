"""Vowpal Wabbit: from its own text over its cache file, from scratch for each number of passes."""

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from tests.bench.peers.trial import Trial
from tests.bench.prepared import Prepared
from tests.bench.usage import Stopwatch, own_core_seconds

BYTES_PER_VALUE = None
SECONDS_ARE = "from its text over its cache file to the end"
PASSES = (1, 2, 4, 8, 16, 32)


def run(data: Prepared, C: float) -> Iterator[Trial | None]:
    """--loss_function hinge --l2 1/(nC) --noconstant, its default step sizes, every row in training."""
    bits = max(18, (data.n_features + 1).bit_length())
    with tempfile.TemporaryDirectory(prefix="vw-", dir=data.directory) as directory:
        work = Path(directory)
        _write_text(data.text, work / "text.vw")
        yield None
        for passes in PASSES:
            options = (
                f"-d {work}/text.vw --cache_file {work}/cache -k --passes {passes} --holdout_off -b {bits} "
                f"--loss_function hinge --noconstant --l2 {1 / (data.n_rows * C):.17g} "
                f"--readable_model {work}/model --quiet"
            )
            watch = Stopwatch(own_core_seconds)
            # Here: its library has subnormals taken for zero in all of a process that loads it.
            from vowpalwabbit import Workspace  # noqa: PLC0415

            workspace = Workspace(options)
            spent = watch.total()
            workspace.finish()
            with (work / "model").open() as lines:
                yield Trial(f"--passes {passes}", spent, read_weights(lines, data.n_features))


def _write_text(source: Path, target: Path) -> None:
    with source.open("rb") as lines, target.open("wb") as out:
        for line in lines:
            label, _, pairs = line.partition(b" ")
            out.write(label + b" | " + pairs)


def read_weights(lines: Iterable[str], n_features: int) -> np.ndarray:
    """w (n_features,) of a readable model of features named 1, 2, ...

    With --l2 the stored weights are to be multiplied by the factor stored as l2_state: only then do they predict as
    Vowpal Wabbit does.
    """
    w, scale = np.zeros(n_features), 1.0
    for line in lines:
        if line.startswith("l2_state"):
            scale = float(line.split()[1])
        name, _, rest = line.partition(":")
        if name.isdigit():
            w[int(name) - 1] = float(rest.split()[0])
    return scale * w
