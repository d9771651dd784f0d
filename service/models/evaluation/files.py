"""Evaluates a model on rows that are no dataset: ingest makes a temporary dataset, with the options of training."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from streamsvm.reader.ingest.ranges import SourceInput
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import OF_FRAMES, InputOptions
from streamsvm.reader.parsers.text.hashed_text import as_input
from streamsvm.service.models.evaluation.evaluation import evaluate
from streamsvm.service.processes.run_directories import temporary_directory
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.models.model_file import Model

_OF_TABLE = ("categorical", "missing", "categories", "n_features", "columns")


def evaluate_rows(
    model: Model, rows: Iterable[bytes] | SourceInput, options: InputOptions, curves: bool = False, threshold: str = ""
) -> dict[str, Any]:
    """Compute the figures of `evaluate` for rows that are not yet parsed. Raises InputError, and as `evaluate` does.

    options  options that differ from their defaults apply; the others are as in training
    """
    with temporary_directory(None, "streamsvm-evaluate-") as work:
        as_trained = replace(options_as_trained(model, options), shuffle="no")  # doubtful rows are those of the input
        ingest(rows, work / "dataset", as_trained, InputLimits())
        return evaluate(model, Dataset(work / "dataset"), curves, threshold)


def options_as_trained(model: Model, options: InputOptions) -> InputOptions:
    """Fill in the options that were not given with those by which the rows of training were made."""
    input_ = model.about.get("input") or {}
    options = replace(options, trained=input_)
    has_words = any(isinstance(label, str) for label in model.labels)
    # Booleans of a frame are numbers to a model of numbers; LIBSVM text has no such option.
    if has_words or (options.format == OF_FRAMES and options.label_type == "auto"):
        options = replace(options, label_type="string" if has_words else "number")
    if input_.get("format") == "text":
        return as_input(options, input_)
    if "columns" not in input_:
        return options
    known = {name: input_[name] for name in _OF_TABLE if input_.get(name)}
    if not input_["has_names"]:
        known.pop("columns")
    return replace(options, **{name: value for name, value in known.items() if name not in options.given})
