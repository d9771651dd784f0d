"""Makes rows for a model from inputs that are no matrix: files, frames, strings, and dicts."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.errors import InputWarning, told_plainly, warn
from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.ranges import SourceInput
from streamsvm.reader.ingest.run import read_chunks
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.fasta import is_of_strings
from streamsvm.reader.parsers.tables.matching import shown
from streamsvm.reader.parsers.tables.mixed_columns import is_numbers
from streamsvm.reader.sources.files import list_files
from streamsvm.service.models.evaluation.evaluation import evaluate_rows
from streamsvm.service.models.predicting.predictor import Prediction, Predictor
from streamsvm.service.models.predicting.raw_rows import match_given, rows_of_columns, rows_of_strings
from streamsvm.service.remote.frames import column_names, is_column, is_frame, selected
from streamsvm.sources import files, is_files, table
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.rows.csr import Array, Rows

_LOOKED_AT = 8  # number of texts in a list by which names of files are told from documents


def is_read(X: Any, model: Model) -> bool:
    """Tell whether the reader parses X: X is a file, or a frame for a model that was trained on a table."""
    if isinstance(X, str | os.PathLike):
        return True
    return is_frame(X) and "columns" in (model.about.get("input") or {})


def has_labels(X: Any, y: Any, model: Model) -> bool:
    """Tell whether the labels to compare predictions with are in X, a file or a frame, and not in an array y."""
    return (y is None or is_column(y)) and is_read(X, model)


def predictions(X: Any, predictor: Predictor, label: Any) -> Iterator[Prediction]:
    """Yield predictions of the rows of a file or frame. After the last, warn of columns and categories unknown so far.

    label  name or number of the column of labels; None: the one that the model's `input` names, or a usual name
    """
    unknown, words = list[str](), Counter[str]()
    with told_plainly():
        if is_frame(X):
            source = table(X, None, None, None, None, labelled=False)
            chunks, options = source.chunks, source.options
        else:
            chunks, options = _chunks(Path(X)), InputOptions()
        options = replace(options, label_column=None if label is None else str(label))
        for prediction in predictor.predict_text(chunks, options=options):
            unknown = prediction.match.unknown if prediction.match else unknown
            words.update(prediction.unknown_words)
            yield prediction
    _warn_of(unknown, words)


def judged(X: Any, model: Model, label: Any) -> tuple[Array, Array]:
    """Return the predicted labels of the rows of a file or a frame, and the labels there, (n_rows,) each.

    label  name or number of the column of labels; None: as in `predictions`
    Raises InvalidInput if a row has no label.
    """
    pairs = [(each.labels, each.expected) for each in predictions(X, Predictor(model), label)]
    found, expected = (np.concatenate(each) for each in zip(*pairs, strict=True)) if pairs else (np.empty(0),) * 2
    with told_plainly():
        gaps = np.isnan(expected) if expected.dtype.kind == "f" else expected == ""
        if gaps.any() or found.dtype.kind != expected.dtype.kind:
            message = f"{gaps.sum()} of {len(gaps)} rows have no label of the model's kind"
            raise InputError("missing_value", message, hint="name the column of labels: score(X, 'column')")
    return found, expected


def evaluated(
    model: Model, X: Any, y: Any, weight: Any, options: dict[str, Any] | None, curves: bool = False, threshold: str = ""
) -> dict[str, Any]:
    """Return the figures of an evaluation on a file or a frame; for the other arguments see `files` and `table`."""
    if is_files(X):
        source = files(X, y, weight, options)
        paths = [str(path) for path in source.paths]
        return evaluate_rows(model, SourceInput(list_files(paths), InputLimits()), source.options, curves, threshold)
    if not is_frame(X):
        raise ValueError("evaluate takes files and data frames: score takes matrices")
    given = model.about.get("input", {}).get("label_column") if y is None else y
    names = column_names(X) or ()
    stream = table(X, given if y is not None or given in names else None, weight, None, options)
    return evaluate_rows(model, stream.chunks, stream.options, curves, threshold)


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from read_chunks(file)


def raw_rows(X: Any, model: Model) -> Rows | None:
    """Make rows of a list of strings, or of a list of dictionaries; return None for a matrix of features.

    Raises
    ------
    InvalidInput
        The model was trained on other columns, or a row is wrong: a string of another length, a missing value.
    """
    input_ = model.about.get("input")
    with told_plainly():
        if is_of_strings(input_) and isinstance(X, list | tuple) and all(isinstance(each, str) for each in X):
            return rows_of_strings(X, input_)
        if input_ is None or "columns" not in input_:
            return None
        if not (isinstance(X, list | tuple) and X and all(isinstance(each, dict) for each in X)):
            return None
        names = [str(name) for name in dict.fromkeys(name for each in X for name in each)]
        columns = {name: [each.get(name) for each in X] for name in input_["columns"]}
        made = rows_of_columns(columns, names, len(X), input_, model.index_base)
    _warn_of(made.match.unknown if made.match else [], made.unknown)
    return made.rows


def document_predictions(texts: Sequence[str], predictor: Predictor) -> Iterator[Prediction]:
    """Predict documents; warn if the texts are names of files: `predict` reads a file only if it is given one name.

    Raises InvalidInput no_documents for names of files if the model was not trained on documents.
    """
    with told_plainly():
        if all(map(os.path.isfile, texts[:_LOOKED_AT])):
            how = f"predict({str(texts[0])!r}) reads one file, predict_path reads several"
            if not predictor.reads_documents:
                raise InputError("no_documents", "a list of names of files is not a list of rows", hint=how)
            warn(f"the names of files in the list are predicted as documents: {how}", InputWarning)
        yield from predictor.predict_documents(list(texts))


def _warn_of(unknown: Sequence[str], words: Mapping[str, int] | None = None) -> None:
    """Warn of columns that the model does not have, and of unknown words (column -> count)."""
    if unknown:
        warn(f"columns that the model does not have, left out: {len(unknown):,} ({shown(unknown)})")
    if words:
        told = ", ".join(f"{count:,} in {name[:40]}" for name, count in list(words.items())[:10])
        warn(f"words that the model does not know, passed over: {told}", InputWarning)


def with_columns(X: Any, model: Model) -> Any:
    """Return X, reduced to the model's columns in the model's order if X is a data frame of numbers.

    Raises
    ------
    InvalidInput
        The frame lacks a column of the model, or has names where the model's columns have none.
    """
    names, input_ = column_names(X), model.about.get("input")
    # Without words and missing values, the model's features are the columns.
    if names is None or input_ is None or not is_numbers(input_) or input_["missing"] != "error":
        return X
    with told_plainly():
        match = match_given(input_, names)
    _warn_of(match.unknown)
    return selected(X, [names[place] for place in match.columns.places])
