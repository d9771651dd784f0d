"""Train a model on a file."""

import argparse
import errno
import json
import sys
import time
from pathlib import Path
from typing import Any

from reader.options import add_input_options, input_options
from reader.parsers import READERS
from service.exports import MODEL_FORMATS, format_of
from service.jobs import JobSpec, parse_spec
from service.local import train_file
from service.settings import Settings
from service.sizes import format_size, parse_size
from storage.model_file import Model

CONVERGED, NOT_CONVERGED = 0, 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `streamsvm train`: every field of a job, in dashes."""
    defaults = {name: field.default for name, field in JobSpec.model_fields.items()}
    parser.add_argument("file", type=Path, help="LIBSVM text, CSV, Parquet or npz; - for standard input")
    parser.add_argument(
        "-o", "--output", type=Path, help="LIBLINEAR text, or .npz, .json or .onnx (default: FILE.model)"
    )
    parser.add_argument("-C", type=float, help="weight of the losses (default: 1)")
    parser.add_argument("--cache", dest="cache_bytes", type=parse_size, help="bound on the cache (default: 256MiB)")
    parser.add_argument("--solver", help=f"(default: {defaults['solver']})")
    parser.add_argument("--loss", choices=("hinge", "squared_hinge"))
    parser.add_argument("--epsilon", type=float, help="residuals up to it cost nothing (default: 0.1)")
    parser.add_argument("--bias", type=float, help="value of a constant feature (default: none)")
    parser.add_argument("--tolerance", type=_or_none, help="stop at M+ - M- of this, or none (default: 1e-3)")
    parser.add_argument("--relative-gap", type=_or_none, help="stop at this certified relative gap (default: none)")
    parser.add_argument("--max-passes", type=int, help=f"(default: {defaults['max_passes']})")
    parser.add_argument("--max-seconds", type=float)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--eviction", choices=("score", "paper"))
    parser.add_argument("--paper-epsilon", type=float, help="first epsilon of eviction paper (default: infinity)")
    parser.add_argument("--paper-beta", choices=("step", "sweep"))
    parser.add_argument("--paper-reset", action="store_true", default=None)
    parser.add_argument("--paper-gradient", choices=("plain", "projected"))
    parser.add_argument("--screening", type=_or_none, help="slack of resting rows left out, or none (default: 0.1)")
    parser.add_argument("--selection", choices=("uniform", "adaptive"))
    parser.add_argument("--pace", choices=("adaptive", "fixed"))
    parser.add_argument("--threads", type=int, help=f"(default: {defaults['threads']})")
    parser.add_argument("--updates-per-row", type=float, help=f"(default: {defaults['updates_per_row']})")
    parser.add_argument("--class-weight", type=_weight, action="append", metavar="LABEL=WEIGHT")
    add_input_options(parser, list(READERS))
    parser.add_argument("--json", action="store_true", help="print each pass and the result as a line of JSON")


def run(options: argparse.Namespace) -> int:
    """Train, write the model, say what came out."""
    output = options.output or Path("stdin.model" if options.file == Path("-") else f"{options.file.name}.model")
    if not output.absolute().parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such directory", str(output.parent))
    show = _JsonLines() if options.json else _TerminalLine() if sys.stderr.isatty() else _Lines()
    spec = parse_spec(_fields(options))
    if not options.json:
        print(f"reading {options.file}", file=sys.stderr)
    model = train_file(options.file, spec, Settings.from_environment(), input_options(options), show)
    pieces = MODEL_FORMATS[format_of(output)].write(model)
    with output.open("wb") as file:
        file.writelines(pieces)
    show.finish(model, output)
    return CONVERGED if model.about["converged"] else NOT_CONVERGED


def _fields(options: argparse.Namespace) -> dict[str, Any]:
    given = {
        name: getattr(options, name)
        for name in JobSpec.model_fields
        if name != "class_weight" and getattr(options, name, None) is not None
    }
    for name in ("tolerance", "relative_gap", "screening"):
        if given.get(name) == _NONE:
            given[name] = None
    if options.class_weight:
        given["class_weight"] = dict(options.class_weight)
    return {"dataset": str(options.file), **given}


_NONE = "none"


def _or_none(text: str) -> float | str:
    return _NONE if text == _NONE else float(text)


def _weight(text: str) -> tuple[str, float]:
    label, weight = text.split("=")
    return label, float(weight)


class _Lines:
    """One plain line a pass."""

    def __init__(self) -> None:
        self._passes = 0

    def __call__(self, progress: dict[str, Any], history: list[dict[str, Any]]) -> None:
        for record in history[self._passes :]:
            self.show_pass(record)
        self._passes = len(history)

    def show_pass(self, record: dict[str, Any]) -> None:
        print(_describe(record), file=sys.stderr)

    def finish(self, model: Model, output: Path) -> None:
        certificate = model.about["certificate"]
        outcome = "converged" if model.about["converged"] else "not converged"
        print(
            f"{outcome} ({model.about['stop_reason']}) after {model.about['passes']} passes: "
            f"M+ - M- {_short(certificate['gap'])}, objective {certificate['primal_objective']:.8g}, "
            f"relative duality gap {_short(certificate['relative_duality_gap'])}\nwrote {output}",
            file=sys.stderr,
        )


class _TerminalLine(_Lines):
    """One line that is written over."""

    def __call__(self, progress: dict[str, Any], history: list[dict[str, Any]]) -> None:
        text = f"pass {progress['pass']} block {progress['block']}/{progress['blocks'] or '?'}"
        if progress["gap"] is not None:
            text = f"{text}  {_describe(history[-1]).split(': ')[1]}" if history else text
        if progress["eta_seconds"] is not None:
            text += f"  about {progress['eta_seconds']:.0f} s left"
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def finish(self, model: Model, output: Path) -> None:
        print("\r\033[K", end="", file=sys.stderr)
        super().finish(model, output)


class _JsonLines(_Lines):
    """Objects for machines, on standard output."""

    def show_pass(self, record: dict[str, Any]) -> None:
        print(json.dumps(record), flush=True)

    def finish(self, model: Model, output: Path) -> None:
        print(json.dumps({"result": {**model.about, "model": str(output), "at": time.time()}}), flush=True)


def _describe(record: dict[str, Any]) -> str:
    return (
        f"pass {record['pass']}: M+ - M- {_short(record['gap'])}, dual {record['dual_objective']:.8g}, "
        f"relative gap <= {_short(record['relative_gap_bound'])}, {format_size(record['resident_bytes'])} cached, "
        f"{record['elapsed_seconds']:.1f} s"
    )


def _short(number: float | None) -> str:
    return "?" if number is None else f"{number:.3g}"
