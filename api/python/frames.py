"""Finds columns by name in data frames of pandas and polars and tables of pyarrow, without importing any of them."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from streamsvm.storage.rows.csr import Array


def column_names(X: Any) -> list[str] | None:
    """Return the names of a frame's columns if all are strings, as scikit-learn asks; else None."""
    columns = getattr(X, "column_names", None)  # a table of pyarrow, whose `columns` are the data
    if columns is None:
        columns = getattr(X, "columns", None)
    names = [] if columns is None or callable(columns) else list(columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def selected(X: Any, names: Sequence[str]) -> Any:
    """Return the frame with these columns, in this order."""
    return X[list(names)] if hasattr(X, "iloc") else X.select(list(names))


def column(X: Any, name: str) -> Array:
    """Return a column, (n_rows,) of its own type; a missing value is nan, None or pandas.NA."""
    return np.asarray(X[name].to_numpy())


def warn_of(unknown: Sequence[str], shown: str) -> None:
    """Warn of columns that the model does not have; `shown` names some."""
    if unknown:
        message = f"columns that the model does not have, left out: {len(unknown):,} ({shown})"
        warnings.warn(message, UserWarning, stacklevel=5)
