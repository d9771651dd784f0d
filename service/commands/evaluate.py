"""Evaluate a model file on a file whose rows have labels."""

import argparse
import json
from pathlib import Path
from typing import Any

from streamsvm.reader.ingest.ranges import SourceInput
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import add_input_options, input_options
from streamsvm.reader.sources.files import list_files
from streamsvm.service.commands.predict import opened
from streamsvm.service.models.evaluation.evaluation import evaluate_rows
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.formats import stored_format
from streamsvm.service.models.predicting.answers import shown_label
from streamsvm.service.models.threshold import RULES
from streamsvm.service.terminal.display import counted
from streamsvm.service.terminal.inputs import file_or_url

_FIGURES = {
    "accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "f1": "F1", "auc": "area under the ROC curve",
    "average_precision": "average precision",
    "log_loss": "log loss", "brier_score": "Brier score", "mse": "mean squared error",
    "mae": "mean absolute error", "r2": "R^2", "threshold": "threshold", "objective": "objective",
}  # fmt: skip
_DOUBTFUL = 3  # rows shown whose labels may be wrong


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `streamsvm evaluate` to the parser."""
    parser.usage = "%(prog)s [options] model file"
    parser.add_argument("model", type=Path, help="LIBLINEAR or LIBSVM text, .npz or .onnx")
    parser.add_argument("file", type=file_or_url, help="rows with labels, in any format of train; - for standard input")
    parser.add_argument("--json", action="store_true", help="print all figures as one object of JSON")
    parser.add_argument(
        "--curves",
        action="store_true",
        help="with two classes also points of the ROC and precision-recall curves, as JSON",
    )
    parser.add_argument(
        "--threshold", metavar="RULE", default="", help=f"with two classes also the threshold that is best by {RULES}"
    )
    add_input_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the figures of an evaluation; return the exit code. Input options that are not given are as in training."""
    with options.model.open("rb") as file:
        model = MODEL_FORMATS[stored_format(options.model)].read(file)
    given = input_options(options)
    if isinstance(options.file, str):
        found = evaluate_rows(
            model, SourceInput(list_files([options.file]), InputLimits()), given, options.curves, options.threshold
        )
    else:
        with opened(options.file) as chunks:
            found = evaluate_rows(model, chunks, given, options.curves, options.threshold)
    print(json.dumps(found) if options.json or options.curves else "\n".join(lines(found)))
    return 0


def lines(found: dict[str, Any]) -> list[str]:
    """Write the figures of an evaluation as lines for people."""
    told = [counted(found["rows"], "row")]
    told += [f"{name}  {found[key]:.6g}" for key, name in _FIGURES.items() if found.get(key) is not None]
    for each in found.get("classes", ()):
        figures = ", ".join(f"{name} {each[name]:.4f}" for name in ("precision", "recall", "f1") if each.get(name))
        told.append(f"class {shown_label(each['label'])}  {figures}")
    told += [
        f"row {each['row'] + 1:,} is labelled {shown_label(each['label'])}, looks like {shown_label(each['predicted'])}"
        for each in found.get("doubtful", ())[:_DOUBTFUL]
    ]
    if found["unknown_features"]:
        told.append(f"values of features that the model does not have, passed over: {found['unknown_features']:,}")
    return told
