"""Writes RESULTS.md, one page of what users ask, measured by one command at one commit.

python -m tests.bench.page [--write]

Without --write it only prints. REPEATS (3), SIZE (1GB, of generated text), BIG (10GB, of text far larger than memory)
and WINDOW (5, seconds of each measurement of predictions over HTTP) make it shorter or longer.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from math import nan
from pathlib import Path
from statistics import median

import numpy as np

from streamsvm.service.models.exports import MODEL_FORMATS
from tests.bench import choose_c, ingest, lanes, one_row, predict_files, scale, small_memory
from tests.bench.command import circumstances
from tests.bench.commands import Command, compile_kernels, train_command, watched
from tests.bench.comparison import DATA, C
from tests.bench.convergence import table
from tests.bench.curve import REPEATS
from tests.bench.generate import parse_size
from tests.bench.peers.liblinear import DEFAULT_EPS, PROGRAM, program_words
from tests.bench.prepared import Prepared
from tests.bench.real_data import is_there
from tests.bench.report import cell, header, prose, row

RESULTS = Path(__file__).with_name("RESULTS.md")
RELATIVE_GAP = 1e-3
_BIG = parse_size(os.environ.get("BIG", "10GB"))


def file_to_model() -> Iterator[str]:
    """Lines of Markdown: each data set from its file to a model, by our command and by LIBLINEAR's."""
    compile_kernels()
    yield from prose(
        f"Hinge loss, C = {C:g}, no bias, medians of {REPEATS} in turn. StreamSVM: `streamsvm train FILE "
        f"--relative-gap {RELATIVE_GAP:g}`, its certificate included. LIBLINEAR: `{PROGRAM} -e {DEFAULT_EPS}`. "
        "MB: peak memory, without what the kernel keeps of files. *above*: how far LIBLINEAR's objective ends above "
        "StreamSVM's, relative."
    )
    yield from header("data", "rows", "MB of text", "StreamSVM, s", "MB", "LIBLINEAR, s", "MB", "ratio", "above")
    for name, prepare in DATA.items():
        if name != "generated" and not is_there(name):
            yield row(name, "not available", *[""] * 7)
            continue
        with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
            yield _measured(name, prepare(Path(directory) / name))


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


# heading -> what yields the lines below it
QUESTIONS: dict[str, Callable[[], Iterator[str]]] = {
    "How fast is it beside LIBLINEAR?": file_to_model,
    "In how little memory?": small_memory.run,
    "How large may data be?": lambda: scale.text(_BIG),
    "What do several models cost?": lambda: lanes.run("C", "folds", "classes-mnist"),
    "How long does the search for C take?": lambda: choose_c.run(*choose_c.SHORT),
    "Does training end?": table.run,
    "How fast is a file read?": ingest.run,
    "How fast is one row predicted?": one_row.run,
    "How fast is a file predicted?": predict_files.run,
}


def page() -> Iterator[str]:
    """Lines of the whole page."""
    yield "# Results"
    yield ""
    yield from circumstances("tests.bench.page --write")
    yield from prose(
        "StreamSVM's seconds count all that a user waits for, certificates included. A ratio of more than 1 says that "
        "StreamSVM is faster. Other benches print more: `make bench NAME=comparison`, and those that "
        "[tests/README.md](../README.md) names. [HISTORY.md](HISTORY.md) says what was tried."
    )
    for heading, lines in QUESTIONS.items():
        yield f"## {heading}"
        yield ""
        yield from lines()
        yield ""


def main(*words: str) -> None:
    """Print the page, line by line as it is measured; with --write, put it into RESULTS.md at the end."""
    lines = []
    for line in page():
        print(line, flush=True)
        lines.append(line)
    if "--write" in words:
        RESULTS.write_text("\n".join(lines).rstrip("\n") + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
