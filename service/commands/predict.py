"""Predict the labels of a file, or numbers, with a model file."""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.run import read_chunks
from streamsvm.reader.options import OPTIONS, InputOptions, index_base
from streamsvm.reader.sources.fetch import read_range
from streamsvm.reader.sources.files import is_url, list_files
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.exports import MODEL_FORMATS, ModelFormatError
from streamsvm.service.models.formats import stored_format
from streamsvm.service.models.predicting.answers import shown_label
from streamsvm.service.models.predicting.applied import MOST_EXPLAINED
from streamsvm.service.models.predicting.predictor import Prediction, Predictor
from streamsvm.service.models.predicting.raw_rows import FORMATS
from streamsvm.service.predictions.columns import OutputColumns, PredictionFigures
from streamsvm.service.predictions.engine import Engine
from streamsvm.service.predictions.request import ENDINGS, OUTPUTS, PredictionRequest, format_of_destination, outputs_of
from streamsvm.service.predictions.writers import NdjsonWriter
from streamsvm.service.remote.client import Client
from streamsvm.service.terminal.display import counted
from streamsvm.service.terminal.inputs import Source, file_or_url
from streamsvm.storage.files.durable import whole_file

_OUTPUT = (
    "write the predictions there instead of printing them: a label a line; or columns, if the name ends in .csv, "
    ".ndjson or .parquet; or to a store: s3://bucket/name.parquet"
)
_URL = (
    "predict there: MODEL is the id or name of a model of that service, FILE lies below its import directory, OUTPUT "
    "below its export directory, or either on a store"
)
_DATASET = "with --url: predict the rows of this dataset of the service, and no FILE; --keep row, label or weight"
_EXPLAIN = "write the N features of each row that contribute most to its decision value, as JSON lines or columns"
_KEEP = (
    "write this column of the input before the predictions, by name or number; may be given several times; "
    "where columns have no names, it is no feature of the model"
)
_FORMAT = "format of the file (default: by its content)"
_INDEX_BASE = "number of the first feature of LIBSVM text (default: as in the model's training data)"
_LABEL_COLUMN = (
    "name or number of the column with labels of CSV (default: as in training, or label, y, target, class); "
    "for documents 1: lines are label TAB text (default: by content)"
)
_HEADER = "whether CSV has a line with names of columns (default: auto); no: columns are in the order of training"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `streamsvm predict` to the parser."""
    parser.add_argument("model", type=Path, help="LIBLINEAR or LIBSVM text, .npz or .onnx")
    parser.add_argument(
        "file",
        nargs="?",
        type=file_or_url,
        help="rows in a format of train, such as CSV or Parquet; a URL; a pattern of files; - for standard input",
    )
    parser.add_argument("-o", "--output", help=_OUTPUT)
    parser.add_argument("--url", help=_URL)
    parser.add_argument("--dataset", metavar="NAME", help=_DATASET)
    parser.add_argument("--keep", action="append", metavar="COLUMN", help=_KEEP)
    parser.add_argument("--decision-values", action="store_true", help="write the decision value behind each label")
    parser.add_argument(
        "--probabilities", action="store_true", help="write the probability of each of the model's labels"
    )
    parser.add_argument("--explain", type=int, choices=range(1, MOST_EXPLAINED + 1), metavar="N", help=_EXPLAIN)
    parser.add_argument("--format", choices=FORMATS, help=_FORMAT)
    parser.add_argument("--index-base", choices=("auto", "0", "1"), default="auto", help=_INDEX_BASE)
    parser.add_argument("--label-column", help=_LABEL_COLUMN)
    parser.add_argument("--header", choices=("auto", "yes", "no"), default="auto", help=_HEADER)
    for name in ("delimiter", "decimal", "encoding"):
        known = OPTIONS[name]
        parser.add_argument(f"--{name}", choices=known.choices or None, default=known.default, help=known.meaning)
    parser.add_argument(
        "--text-column", help="name or number of the column of CSV with documents (default: as in training)"
    )


def run(options: argparse.Namespace) -> int:
    """Write a label or number a line, or a file of columns; print the accuracy, or error, if the input has labels."""
    if (options.file is None) == (options.dataset is None) or (options.dataset and not options.url):
        raise ServiceError("no_source", "give FILE, or --dataset with --url", "See streamsvm predict --help.")
    if options.url:
        return _predict_there(options, _input_options(options))
    with options.model.open("rb") as file:
        predictor = Predictor(MODEL_FORMATS[stored_format(options.model)].read(file))
    if _is_of_files(options):
        figures = _predict_files(predictor, options, _input_options(options))
        _tell(figures, predictor)
        return 0
    if options.probabilities and not predictor.has_probabilities:
        raise ModelFormatError(
            "the model has no probabilities", "predict without --probabilities, or train with --probability sigmoid"
        )
    figures, lines = PredictionFigures(), _lines
    if options.explain:
        predictor, lines = predictor.explaining(options.explain), _json_lines
    with (
        opened(options.file) as chunks,
        _writing(options.output) as write,
    ):
        for prediction in predictor.predict_text(chunks, options=_input_options(options)):
            write(lines(predictor, prediction, options))
            figures.add(prediction, predictor)
    _tell(figures, predictor)
    return 0


def _input_options(options: argparse.Namespace) -> InputOptions:
    given = {name: value for name in OPTIONS if (value := getattr(options, name, None)) is not None}
    return InputOptions(**given | {"index_base": index_base(options.index_base)})


def _tell(figures: PredictionFigures, predictor: Predictor) -> None:
    """Print on standard error which columns and features were left out, and the accuracy or error."""
    for line in _column_notes(figures):
        print(line, file=sys.stderr)
    if unknown := figures.unknown_features:
        print(f"values of features that the model does not have, passed over: {unknown:,}", file=sys.stderr)
    if figures.judged and predictor.reads_documents:
        print("labels beside documents are not read as text: they judge the predictions", file=sys.stderr)
    if predictor.explainer and predictor.model.mean is None:
        print("the mean of training is not known: contributions are against a row without features", file=sys.stderr)
    if summary := figures.summary(predictor):
        print(summary, file=sys.stderr)


@contextmanager
def _writing(output: str | None) -> Iterator[Callable[[Iterable[str]], None]]:
    """Open the output file, or standard output; yield a function that writes lines to it."""
    if output is None:
        yield sys.stdout.writelines
    else:
        with whole_file(output) as file:
            yield lambda lines: file.writelines(line.encode() for line in lines)


@contextmanager
def opened(file: Source) -> Iterator[Iterator[bytes]]:
    """Open a file, standard input or a URL; yield an iterator over its bytes in chunks. Raises InputError."""
    if isinstance(file, str):
        files = list_files([file])
        if len(files) > 1:
            raise InputError("several_files", f"{file} stands for {len(files)} files")
        yield read_range(files[0])
    else:
        with sys.stdin.buffer if str(file) == "-" else file.open("rb") as source:
            yield read_chunks(source)


def _column_notes(figures: PredictionFigures) -> Iterator[str]:
    """Yield lines about columns that were left out, or matched by position."""
    if count := figures.unknown_columns:
        yield f"columns that the model does not have, left out: {count:,} ({figures.unknown_names})"
    if figures.passed_names:
        yield "columns were matched by their places, because the model has no names of columns"


def _lines(predictor: Predictor, prediction: Prediction, options: argparse.Namespace) -> Iterator[str]:
    """Yield a line for each row: its label, then the numbers that the options ask for, in the order of the labels."""
    columns = [[[shown_label(label)] for label in prediction.labels.tolist()]]
    if options.decision_values:
        columns.append(_texts(prediction.decision_values))
    if options.probabilities:
        columns.append(_texts(predictor.probabilities(prediction.decision_values)))
    return (" ".join(chain(*row)) + "\n" for row in zip(*columns, strict=True))


def _json_lines(predictor: Predictor, prediction: Prediction, options: argparse.Namespace) -> Iterator[str]:
    """Yield a JSON object for each row, with the outputs that the options ask for."""
    columns = OutputColumns(predictor, (), None, outputs_of(predictor, _outputs(options)))
    yield NdjsonWriter(columns).lines(columns.batch(prediction, [])).decode()


def _texts(values: Any) -> list[list[str]]:
    """Write numbers (n_rows,) or (n_rows, n) as a list of texts for each row."""
    return [[f"{value:.17g}" for value in row] for row in values.reshape(len(values), -1).tolist()]


def _is_of_files(options: argparse.Namespace) -> bool:
    """Whether the options ask for a file of columns, not for a label a line."""
    output = options.output
    has_ending = output is not None and Path(output).suffix.lower() in ENDINGS
    return bool(has_ending or options.keep or (output is not None and is_url(output)))


def _predict_files(predictor: Predictor, options: argparse.Namespace, input_options: InputOptions) -> PredictionFigures:
    """Predict the files that options.file names into options.output. Raises InputError, ServiceError."""
    output = options.output or "-"
    with _sources(options.file) as sources, _directory(output) as directory:
        request = PredictionRequest(
            sources,
            format_of_destination(output),
            input_options,
            tuple(options.keep or ()),
            outputs_of(predictor, _outputs(options)),
            **_explain(options),
        )
        figures = Engine(predictor, request, directory).run(output)
    print(f"{counted(figures.rows, 'row')} predicted", file=sys.stderr)
    return figures


def _predict_there(options: argparse.Namespace, input_options: InputOptions) -> int:
    """Have a service predict; when the prediction has ended, print how many rows it has. Raises ServiceError."""
    given = {name: getattr(input_options, name) for name in input_options.given}
    fields = {"keep": list(options.keep or ()), "outputs": _outputs(options), "options": given, **_explain(options)}
    client, output = Client(options.url), options.output or ""
    if options.dataset:
        prediction = client.predict_dataset(str(options.model), options.dataset, output, **fields)
    else:
        prediction = client.predict_files(str(options.model), str(options.file), output, **fields)
    print(f"prediction {prediction.id} with {prediction.view['model_id']}", file=sys.stderr)
    result = prediction.wait().view["result"]
    print(f"{counted(result['rows'], 'row')} predicted", file=sys.stderr)
    if judged := result.get("judged"):
        print(judged, file=sys.stderr)
    return 0


def _explain(options: argparse.Namespace) -> dict[str, Any]:
    return {"explain": options.explain} if options.explain else {}


def _outputs(options: argparse.Namespace) -> list[str] | None:
    """Return the outputs that the options ask for; None: all outputs that the model has."""
    asked = [("decision_value", options.decision_values), ("probability", options.probabilities)]
    wanted = ["label", *(name for name, is_wanted in asked if is_wanted)]
    if options.explain:
        return [*(wanted if len(wanted) > 1 else OUTPUTS[:2]), "contributions"]
    return wanted if len(wanted) > 1 else None


@contextmanager
def _sources(file: Source) -> Iterator[list[str]]:
    """Yield the files to read. Standard input, or a pipe, is stored in a file first, since several threads read it."""
    if isinstance(file, str) or file.is_file() or not (str(file) == "-" or file.exists()):
        yield [str(file)]
        return
    with tempfile.TemporaryDirectory() as folder:
        stored = Path(folder) / "rows"
        with stored.open("wb") as copy, sys.stdin.buffer if str(file) == "-" else file.open("rb") as source:
            shutil.copyfileobj(source, copy, 1 << 20)
        yield [str(stored)]


@contextmanager
def _directory(output: str) -> Iterator[Path]:
    """Yield the directory for pieces: beside an output file, where it survives a kill; temporary for a store."""
    if is_url(output):
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder) / "pieces"
        return
    path = Path(output).resolve()
    yield path.with_name(f".{path.name}.predicting")
