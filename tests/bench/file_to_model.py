"""From a file to a model, by StreamSVM's command and by LIBLINEAR's: seconds, memory and the objective."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from math import nan
from pathlib import Path
from statistics import median

import numpy as np

from streamsvm.service.models.exports import MODEL_FORMATS
from tests.bench.commands import Command, compile_kernels, train_command, watched
from tests.bench.peers.liblinear import DEFAULT_EPS, PROGRAM, program_words
from tests.bench.prepared import Prepared, prepare_generated, prepare_real, size_limit
from tests.bench.real_data import is_there
from tests.bench.report import cell, header, prose, row
from tests.bench.usage import REPEATS

C, RELATIVE_GAP = 1.0, 1e-3
_REAL = ("imdb.train", "a9a", "mnist8", "news20", "skin_nonskin")

# name -> what makes it in a directory
DATA: dict[str, Callable[[Path], Prepared]] = {
    "generated": lambda directory: prepare_generated(directory, size_limit()),
    **{name: partial(prepare_real, name=name) for name in _REAL},
}


def run(*names: str) -> Iterator[str]:
    """Lines of Markdown: some of DATA, each from its file to a model, by our command and by LIBLINEAR's."""
    compile_kernels()
    yield from prose(
        f"Hinge loss, C = {C:g}, no bias, medians of {REPEATS} in turn. StreamSVM: `streamsvm train FILE "
        f"--relative-gap {RELATIVE_GAP:g}`, its certificate included. LIBLINEAR: `{PROGRAM} -e {DEFAULT_EPS}`. "
        "MB: peak memory, without what the kernel keeps of files. *above*: how far LIBLINEAR's objective ends above "
        "StreamSVM's, relative."
    )
    yield from header("data", "rows", "MB of text", "StreamSVM, s", "MB", "LIBLINEAR, s", "MB", "ratio", "above")
    for name in names:
        if name in _REAL and not is_there(name):
            yield row(name, "not available", *[""] * 7)
            continue
        with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
            yield _measured(name, DATA[name](Path(directory) / name))


def _measured(name: str, data: Prepared) -> str:
    cache_bytes = max(data.text_bytes // 20, 64 << 20)
    options = ("-C", f"{C:g}", "--tolerance", "none", "--relative-gap", f"{RELATIVE_GAP:g}")
    ours: list[Command] = []
    theirs: list[tuple[float, int]] = []
    objective = nan
    for _ in range(REPEATS):
        ours.append(train_command(data.text, cache_bytes, *options))
        with tempfile.NamedTemporaryFile(prefix="model-") as model:
            ended, peak_bytes = watched(program_words(data.text, Path(model.name), C))
            objective = data.primal_objective(_weights(Path(model.name), data.n_features), C)
        theirs.append((ended.spent.seconds, peak_bytes))
    assert all(each.output["result"]["converged"] for each in ours), f"{name} was not certified"
    seconds, peer = median(each.seconds for each in ours), median(seconds for seconds, _ in theirs)
    return row(
        name,
        f"{data.n_rows:,}",
        cell(data.text_bytes / 1e6),
        cell(seconds),
        max(each.peak_bytes for each in ours) // 10**6,
        cell(peer),
        max(peak_bytes for _, peak_bytes in theirs) // 10**6,
        f"{peer / seconds:.2f}x",
        f"{objective / ours[-1].output['result']['certificate']['primal_objective'] - 1:.1e}",
    )


def _weights(model: Path, n_features: int) -> np.ndarray:
    """Return w (n_features,) of the label +1 from a model file of LIBLINEAR, which may end before the last feature."""
    with model.open("rb") as file:
        read = MODEL_FORMATS["liblinear"].read(file)
    places = np.arange(len(read.w)) if read.maps is None else read.maps.listed - read.index_base  # of many, some
    return np.bincount(places, read.w * read.labels[0], n_features)
