"""Strings, and tables with words in them, for models that were trained on such."""

from typing import Any

from reader.parsers.strings import is_of_strings
from service.models.raw_rows import is_of_columns, rows_of_columns, rows_of_strings
from storage.csr import Rows
from storage.model_file import Model
from streamsvm.errors import told_plainly


def raw_rows(X: Any, model: Model) -> Rows | None:
    """The rows of a list of strings, a list of dictionaries or a table of pandas; None of anything else.

    Raises
    ------
    InvalidInput
        The model was trained on others, or a row cannot be read: a string of another length, a value that is missing.
    """
    input_ = model.about.get("input")
    with told_plainly():
        if is_of_strings(input_) and isinstance(X, list | tuple) and all(isinstance(each, str) for each in X):
            return rows_of_strings(X, input_)
        if not is_of_columns(input_) or input_ is None:
            return None
        if hasattr(X, "columns"):
            columns = {str(name): X[name].tolist() for name in X.columns}
        elif isinstance(X, list | tuple) and all(isinstance(each, dict) for each in X):
            columns = {name: [each.get(name) for each in X] for name in input_["columns"]}
        else:
            return None
        return rows_of_columns(columns, len(X), input_, model.index_base)[0]
