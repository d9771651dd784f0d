"""Makes the rows of a model from inputs that are no matrix: files, strings, and tables with column names."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.errors import told_plainly
from streamsvm.frames import column, column_names, selected, warn_of
from streamsvm.reader.ingest.run import read_chunks
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.strings.strings import is_of_strings
from streamsvm.reader.parsers.tables.column_match import shown
from streamsvm.reader.parsers.tables.mixed_columns import is_numbers
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.models.predicting.raw_rows import TableRows, match_names, rows_of_columns, rows_of_strings
from streamsvm.service.models.predicting.rows_read import format_of_name
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.rows.csr import Array, Rows


def file_values(path: str | os.PathLike[str], model: Model) -> Array:
    """Return the decision values of the rows of a file: (n_rows,) float64, or (n_rows, n_classes)."""
    predictor, unknown = Predictor(model), list[str]()
    values = [predictor.decision_values(np.zeros((0, model.n_features)))]
    with told_plainly(), Path(path).open("rb") as file:
        options = InputOptions(format_of_name(Path(path), predictor.text_format))
        for prediction in predictor.predict_text(read_chunks(file), options=options):
            values.append(prediction.decision_values)
            unknown = prediction.match.unknown if prediction.match else unknown
    warn_of(unknown, shown(unknown))
    return np.concatenate(values)


def raw_rows(X: Any, model: Model) -> Rows | None:
    """Make rows of a list of strings, a list of dictionaries or a data frame; return None for a matrix of features.

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
        names = column_names(X)
        if names is not None:
            if is_plain(input_):
                return None
            match = match_names(input_, names)
            columns: dict[str, Any] = {name: column(X, name) for name in match.columns.names}
        elif isinstance(X, list | tuple) and X and all(isinstance(each, dict) for each in X):
            names = [str(name) for name in dict.fromkeys(name for each in X for name in each)]
            columns = {name: [each.get(name) for each in X] for name in input_["columns"]}
        else:
            return None
        return _warned(rows_of_columns(columns, names, len(X), input_, model.index_base))


def with_columns(X: Any, model: Model) -> Any:
    """Return a data frame of numbers with the model's columns in the model's order, and any other X unchanged.

    Raises
    ------
    InvalidInput
        The frame lacks a column of the model, or has names where the model's columns have none.
    """
    names, input_ = column_names(X), model.about.get("input")
    if names is None or input_ is None or not is_plain(input_):
        return X
    with told_plainly():
        match = match_names(input_, names)
    warn_of(match.unknown, shown(match.unknown))
    return selected(X, [names[place] for place in match.columns.places])


def is_plain(input_: dict[str, Any]) -> bool:
    """Tell whether the model's features are columns of numbers without missing values."""
    return is_numbers(input_) and input_["missing"] == "error"


def _warned(table: TableRows) -> Rows:
    unknown = table.match.unknown if table.match else []
    warn_of(unknown, shown(unknown))
    return table.rows
