"""Writes RESULTS.md, one page of what users ask, measured by one command at one commit.

python -m tests.bench.page [--write]

Without --write it only prints. REPEATS (3), SIZE (1GB, of generated text), BIG (10GB, of text far larger than memory)
and WINDOW (5, seconds of each measurement of predictions over HTTP) make it shorter or longer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench import choose_c, file_to_model, ingest, lanes, one_row, predict_files, scale, small_memory
from tests.bench.command import circumstances
from tests.bench.convergence import table
from tests.bench.generate import parse_size
from tests.bench.report import prose

RESULTS = Path(__file__).with_name("RESULTS.md")
_BIG = parse_size(os.environ.get("BIG", "10GB"))

# heading -> what yields the lines below it
QUESTIONS: dict[str, Callable[[], Iterator[str]]] = {
    "How fast is it beside LIBLINEAR?": lambda: file_to_model.run(*file_to_model.DATA),
    "In how little memory?": small_memory.run,
    "How large may data be?": lambda: scale.text(_BIG),
    "What do several models cost?": lambda: lanes.run("C", "folds", "classes-mnist"),
    "How long does the search for C take?": lambda: choose_c.run(*choose_c.SETS),
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
        "StreamSVM is faster. [tests/README.md](../README.md) names other benches, [HISTORY.md](HISTORY.md) what was "
        "tried."
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
