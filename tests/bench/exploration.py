"""What the settings do to convergence: passes, updates and seconds to a certified relative gap."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from storage.dataset import read_manifest
from tests.bench import commands, jobs
from tests.bench.prepared import prepare_generated, prepare_real, size_limit
from tests.bench.report import cell, header, prose, row
from tests.reference.data import available

GAPS = (1e-3, 1e-5)
_ENDS = {"tolerance": None, "max_passes": 100, "max_seconds": 20.0}
_LARGEST = 100 * 10**6  # bytes of generated text

# What differs from the defaults. C and the share of the data that is cached go with each other.
PROBLEMS = ((0.01, 0.1), (1.0, 0.05), (1.0, 0.1), (1.0, 0.25), (100.0, 0.1))
SETTINGS: tuple[dict[str, object], ...] = (
    {},
    {"pace": "fixed", "updates_per_row": 1.0},
    {"pace": "fixed", "updates_per_row": 2.0},
    {"pace": "fixed", "updates_per_row": 4.0},
    {"pace": "fixed", "updates_per_row": 8.0},
)
# At C = 1 with a tenth cached.
MORE_SETTINGS: tuple[dict[str, object], ...] = (
    {"spill": False},
    {"screening": None},
    {"screening": 0.4},
    {"screening": 0.02},
    {"threads": 1},
    {"solver": "streamsvm_paper"},
    {"solver": "sbm"},
    {"solver": "bm"},
)


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        "Hinge loss, no bias. *to*: passes, updates a row of the data, and seconds of training until this relative gap "
        "was certified, a run for each; none if it was not after 100 passes or 20 seconds."
    )
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        if available("imdb.train"):
            yield from _table(prepare_real(Path(directory) / "imdb.train", name="imdb.train").text, "imdb.train")
        generated = prepare_generated(Path(directory) / "generated", min(size_limit(), _LARGEST))
        yield from _table(generated.text, f"generated, {generated.text_bytes / 1e6:.0f} MB")


def _table(text: Path, name: str) -> Iterator[str]:
    dataset = text.with_name("explored")
    commands.ingest_command(text, dataset)
    yield f"### {name}"
    yield ""
    yield from header("C", "cached", "settings", *(f"to {gap:.0e}: {what}" for gap in GAPS for what in _WHAT))
    for C, share in PROBLEMS:
        more = MORE_SETTINGS if (C, share) == (1.0, 0.1) else ()
        for settings in (*SETTINGS, *more):
            yield _line(dataset, C, share, settings)
    yield ""


_WHAT = ("passes", "updates", "seconds")


def _line(dataset: Path, C: float, share: float, settings: dict[str, object]) -> str:
    cache_bytes = int(read_manifest(dataset).decoded_bytes * share)
    figures: list[str] = []
    for gap in GAPS:
        done = jobs.train(dataset, C=C, cache_bytes=cache_bytes, relative_gap=gap, **{**_ENDS, **settings})
        figures += _cost(done)
        if not done.result["converged"]:
            figures += ["-"] * (len(_WHAT) * len(GAPS) - len(figures))
            break
    words = ", ".join(f"{name} {value}" for name, value in settings.items()) or "defaults"
    return row(f"{C:g}", f"{share:.0%}", words, *figures)


def _cost(done: jobs.Finished) -> tuple[str, ...]:
    """Passes, updates a row, and seconds of a job that has converged."""
    if not done.result["converged"]:
        return ("-",) * len(_WHAT)
    last = done.passes[-1]
    per_row = last["updates"] / last["rows_streamed"] * last["pass"]
    return str(last["pass"]), f"{per_row:.0f}", cell(last["elapsed_seconds"])
