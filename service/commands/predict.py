"""Predict the labels of a file, or numbers, with a model file."""

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path

from reader.ingest import read_chunks
from service.exports import MODEL_FORMATS
from service.model_names import format_of
from service.predictor import Predictor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `streamsvm predict`."""
    parser.add_argument("model", type=Path, help="LIBLINEAR text, .npz, .json or .onnx")
    parser.add_argument("file", type=Path, help="LIBSVM text, plain or compressed; - for standard input")
    parser.add_argument("-o", "--output", type=Path, help="write the predictions there instead of printing them")
    parser.add_argument("--decision-values", action="store_true", help="write the decision value behind each label")


def run(options: argparse.Namespace) -> int:
    """Print a label or number a line, and to standard error how well they are as the file says."""
    with options.model.open("rb") as file:
        predictor = Predictor(MODEL_FORMATS[format_of(options.model)].read(file))
    rows = right = 0
    squares = 0.0
    source = sys.stdin.buffer if str(options.file) == "-" else options.file.open("rb")
    with source, options.output.open("w") if options.output else nullcontext(sys.stdout) as output:
        for prediction in predictor.predict_text(read_chunks(source)):
            columns = [prediction.labels.tolist()]
            if options.decision_values:
                columns.append(prediction.decision_values.tolist())
            output.writelines(" ".join(f"{value:.17g}" for value in row) + "\n" for row in zip(*columns, strict=True))
            rows += len(prediction.labels)
            right += int((prediction.labels == prediction.expected).sum())
            squares += float(((prediction.labels - prediction.expected) ** 2).sum())
    accuracy, error = f"accuracy {right / rows:.4%} ({right}/{rows})", f"mean squared error {squares / rows:.6g}"
    print(error if predictor.is_regression else accuracy, file=sys.stderr)
    return 0
