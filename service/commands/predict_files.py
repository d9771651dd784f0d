"""Predicts files into a file, for `streamsvm predict`."""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamsvm.reader.options import InputOptions
from streamsvm.reader.sources.locations import is_url
from streamsvm.service.commands.display import counted
from streamsvm.service.commands.inputs import Source
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.predictions.engine import Engine
from streamsvm.service.predictions.figures import Figures
from streamsvm.service.predictions.request import ENDINGS, OUTPUTS, Request, format_of_destination, outputs_of
from streamsvm.service.remote.client import Client


def is_of_files(options: argparse.Namespace) -> bool:
    """Whether the predictions are a file of columns, and not a label a line."""
    output = options.output
    has_ending = output is not None and Path(output).suffix.lower() in ENDINGS
    return bool(has_ending or options.keep or (output is not None and is_url(output)))


def predict_files(predictor: Predictor, options: argparse.Namespace, input_options: InputOptions) -> Figures:
    """Predict the files that options.file names into options.output. Raises InputError, ServiceError."""
    output = options.output or "-"
    with _sources(options.file) as sources, _directory(output) as directory:
        request = Request(
            sources,
            format_of_destination(output),
            input_options,
            tuple(options.keep or ()),
            outputs_of(predictor, _outputs(options)),
        )
        figures = Engine(predictor, request, directory).run(output)
    print(f"{counted(figures.rows, 'row')} predicted", file=sys.stderr)
    return figures


def predict_there(options: argparse.Namespace, input_options: InputOptions) -> int:
    """Have a service predict; print its answer's figures when it has ended. Raises ServiceError."""
    given = {name: getattr(input_options, name) for name in input_options.given}
    fields = {"keep": list(options.keep or ()), "outputs": _outputs(options), "options": given}
    client, output = Client(options.url), options.output or ""
    if options.dataset:
        prediction = client.predict_dataset(str(options.model), options.dataset, output, **fields)
    else:
        prediction = client.predict_files(str(options.model), str(options.file), output, **fields)
    print(f"prediction {prediction.id} with {prediction.view['model_id']}", file=sys.stderr)
    print(f"{counted(prediction.wait().view['result']['rows'], 'row')} predicted", file=sys.stderr)
    return 0


def _outputs(options: argparse.Namespace) -> list[str] | None:
    """The outputs that the options choose; None: all that the model has."""
    asked = [("decision_value", options.decision_values), ("probability", options.probabilities)]
    wanted = ["label", *(name for name, is_wanted in asked if is_wanted)]
    if options.contributions:
        return [*(wanted if len(wanted) > 1 else OUTPUTS[:2]), "contributions"]
    return wanted if len(wanted) > 1 else None


@contextmanager
def _sources(file: Source) -> Iterator[list[str]]:
    """The files to read. Standard input, or a pipe, is stored first, since its rows are read by several threads."""
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
    """The directory of the pieces: beside a file, where it stays if this process is killed; temporary for a store."""
    if is_url(output):
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder) / "pieces"
        return
    path = Path(output).resolve()
    yield path.with_name(f".{path.name}.predicting")
