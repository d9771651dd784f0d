"""Data frames of pandas and polars and tables of pyarrow, of which none is imported here: their columns, by name."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from streamsvm.storage.rows.csr import Array


def column_names(X: Any) -> list[str] | None:
    """Names of a frame's columns if all are strings, as scikit-learn has it; None of anything else."""
    found = getattr(X, "column_names", None)  # of pyarrow, where `columns` are the columns themselves
    if found is None:
        found = getattr(X, "columns", None)
    names = [] if found is None or callable(found) else list(found)
    return names if names and all(isinstance(name, str) for name in names) else None


def selected(X: Any, names: Sequence[str]) -> Any:
    """The frame with these columns, in this order."""
    return X[list(names)] if hasattr(X, "iloc") else X.select(list(names))


def column(X: Any, name: str) -> Array:
    """(n_rows,) of whatever type; nan, None or pandas' own where a value is missing."""
    found = X[name]
    return np.asarray(found.to_numpy())


def warn_of(unknown: Sequence[str], shown: str) -> None:
    """Warn of columns that the model does not have; `shown` names some."""
    if unknown:
        told = f"columns that the model does not have, left out: {len(unknown):,} ({shown})"
        warnings.warn(told, UserWarning, stacklevel=5)
