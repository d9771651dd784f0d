"""Predict the labels of a file, or numbers, with a model file."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from reader.errors import InputError
from reader.ingest.run import read_chunks
from reader.options import InputOptions, index_base
from reader.sources.fetch import read_range
from reader.sources.files import list_files
from service.commands.inputs import Given, file_or_url
from service.models.exports import MODEL_FORMATS, ModelFormatError
from service.models.labels import shown_label
from service.models.names import stored_format
from service.models.predictor import FORMATS, Prediction, Predictor

_FORMAT = "of the file (default: by its name, or else text for a model of documents, libsvm for others)"
_INDEX_BASE = "of LIBSVM text: number of the first feature (default: as in the data of the model)"
_LABEL_COLUMN = "of CSV: name or number of the column with labels; of documents 1: label TAB text (default: none)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `streamsvm predict`."""
    parser.add_argument("model", type=Path, help="LIBLINEAR or LIBSVM text, .npz, .json or .onnx")
    parser.add_argument(
        "file", type=file_or_url, help="LIBSVM text, CSV, TSV, FASTA or documents; a URL of one; - for standard input"
    )
    parser.add_argument("-o", "--output", type=Path, help="write the predictions there instead of printing them")
    parser.add_argument("--decision-values", action="store_true", help="write the decision value behind each label")
    parser.add_argument(
        "--probabilities", action="store_true", help="write the probability of each of the model's labels"
    )
    parser.add_argument("--format", choices=tuple(FORMATS), help=_FORMAT)
    parser.add_argument("--index-base", choices=("auto", "0", "1"), default="auto", help=_INDEX_BASE)
    parser.add_argument("--label-column", help=_LABEL_COLUMN)
    parser.add_argument(
        "--text-column", help="of CSV: name or number of the column with documents (default: as trained)"
    )


def run(options: argparse.Namespace) -> int:
    """Print a label or number a line, and to standard error how well they are as the file says."""
    with options.model.open("rb") as file:
        predictor = Predictor(MODEL_FORMATS[stored_format(options.model)].read(file))
    if options.probabilities and not predictor.has_probabilities:
        raise ModelFormatError("the model has no probabilities", "predict without --probabilities")
    errors, unknown = _Errors(), 0
    with (
        _opened(options.file) as chunks,
        options.output.open("w") if options.output else nullcontext(sys.stdout) as output,
    ):
        said_of_input = InputOptions(
            options.format or _format(Path(options.file), predictor.text_format),
            index_base=index_base(options.index_base),
            label_column=options.label_column,
            text_column=options.text_column,
        )
        with _naming_the_label(said_of_input):
            for prediction in predictor.predict_text(chunks, options=said_of_input):
                output.writelines(_lines(predictor, prediction, options))
                errors.add(prediction)
                unknown += prediction.unknown_features
    if unknown:
        print(f"values of features that the model does not have, passed over: {unknown:,}", file=sys.stderr)
        if said_of_input.format in ("csv", "tsv") and options.label_column is None:
            print("  every column was taken for a feature: name that of the labels by --label-column", file=sys.stderr)
    if said := errors.said(predictor):
        print(said, file=sys.stderr)
    return 0


@contextmanager
def _opened(file: Given) -> Iterator[Iterator[bytes]]:
    """What it holds."""
    if isinstance(file, str):
        found = list_files([file])
        if len(found) > 1:
            raise InputError("several_files", f"{file} stands for {len(found)} files")
        yield read_range(found[0])
    else:
        with sys.stdin.buffer if str(file) == "-" else file.open("rb") as source:
            yield read_chunks(source)


@contextmanager
def _naming_the_label(options: InputOptions) -> Iterator[None]:
    """Texts in a table may be labels: training finds their column by its name, which features here may have, too."""
    try:
        yield
    except InputError as error:
        if error.code == "not_numeric" and options.label_column is None:
            error.hint = "if it is the column of labels, name it by --label-column; else encode text as numbers"
        raise


def _format(file: Path, otherwise: str) -> str:
    """That of rows.csv, or of rows.tsv.gz."""
    if {".fa", ".fna"} & set(file.suffixes):
        return "fasta"
    return next((name for name in FORMATS if f".{name}" in file.suffixes), otherwise)


def _lines(predictor: Predictor, prediction: Prediction, options: argparse.Namespace) -> Iterator[str]:
    """Of each row its label, then the numbers that are asked for, in the order of the model's labels."""
    columns = [[[shown_label(label)] for label in prediction.labels.tolist()]]
    if options.decision_values:
        columns.append(_texts(prediction.decision_values))
    if options.probabilities:
        columns.append(_texts(predictor.probabilities(prediction.decision_values)))
    return (" ".join(chain(*row)) + "\n" for row in zip(*columns, strict=True))


def _texts(values: Any) -> list[list[str]]:
    """A list for each of the rows of (n_rows,) or (n_rows, n) numbers."""
    return [[f"{value:.17g}" for value in row] for row in values.reshape(len(values), -1).tolist()]


class _Errors:
    """How well the labels agree with those that stood in the file."""

    def __init__(self) -> None:
        self._rows = self._right = 0
        self._squares = 0.0

    def add(self, prediction: Prediction) -> None:
        if prediction.labels.dtype.kind == "f" and not np.isnan(prediction.expected).any():
            self._rows += len(prediction.labels)
            self._right += int((prediction.labels == prediction.expected).sum())
            self._squares += float(((prediction.labels - prediction.expected) ** 2).sum())

    def said(self, predictor: Predictor) -> str | None:
        """None where the file has no labels, or the model's are texts."""
        if not self._rows:
            return None
        if predictor.is_regression:
            return f"mean squared error {self._squares / self._rows:.6g}"
        return f"accuracy {self._right / self._rows:.4%} ({self._right}/{self._rows})"
