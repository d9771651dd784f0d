"""Tells data frames and tables apart, and finds their columns by name, without importing their libraries."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any


def column_names(X: Any) -> list[str] | None:
    """Return the names of a frame's columns if all are strings, as scikit-learn asks; else None."""
    columns = getattr(X, "column_names", None)  # a table of pyarrow, whose `columns` are the data
    if columns is None and _is_of(X, "pyarrow") and hasattr(X, "schema"):
        columns = X.schema.names
    if columns is None and is_lazy(X):
        columns = X.collect_schema().names()
    if columns is None:
        columns = getattr(X, "columns", None)
    if (columns is None or callable(columns)) and is_stream(X):
        columns = _schema_of(X).names
    names = [] if columns is None or callable(columns) else list(columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def is_frame(X: Any) -> bool:
    """Tell whether X is a table with columns: of pandas, polars or pyarrow, or any that gives streams of Arrow."""
    return is_pandas(X) or is_lazy(X) or is_dataset(X) or is_reader(X) or is_stream(X)


def is_stream(X: Any) -> bool:
    """Tell whether X gives streams of Arrow (PyCapsule interface) that are tables, not a single column."""
    is_column = hasattr(X, "dtype") or (hasattr(X, "type") and not hasattr(X, "columns"))
    return hasattr(X, "__arrow_c_stream__") and not is_column


def is_streamed(X: Any) -> bool:
    """Tell whether X has no other way to give its rows than streams of Arrow, or can be read once."""
    return is_reader(X) or (is_stream(X) and not (is_pandas(X) or is_dataset(X) or hasattr(X, "to_arrow")))


def is_pandas(X: Any) -> bool:
    """Tell whether X is a data frame of pandas."""
    return hasattr(X, "iloc") and hasattr(X, "columns")


def is_lazy(X: Any) -> bool:
    """Tell whether X is a LazyFrame of polars."""
    return _is_of(X, "polars") and hasattr(X, "collect_schema") and hasattr(X, "collect")


def is_dataset(X: Any) -> bool:
    """Tell whether X is a dataset, a table or a batch of pyarrow."""
    return _is_of(X, "pyarrow") and hasattr(X, "schema") and (hasattr(X, "to_batches") or hasattr(X, "num_rows"))


def is_reader(X: Any) -> bool:
    """Tell whether X is a reader of batches of pyarrow, which can be read once."""
    return _is_of(X, "pyarrow") and hasattr(X, "read_next_batch")


def is_plain(X: Any) -> bool:
    """Tell whether X is a frame of pandas or polars whose columns are numbers without missing values."""
    if is_pandas(X):
        kinds = {
            getattr(dtype, "kind", "O") if type(dtype).__module__.startswith("numpy") else "O" for dtype in X.dtypes
        }
        return kinds <= set("biuf") and not X.isna().to_numpy().any()
    if not _is_of(X, "polars") or is_lazy(X):
        return False
    if not all(dtype.is_numeric() or str(dtype) == "Boolean" for dtype in X.dtypes):
        return False
    floats = [name for name, dtype in zip(X.columns, X.dtypes, strict=True) if dtype.is_float()]
    return not any(X[name].has_nulls() for name in X.columns) and not any(X[name].is_nan().any() for name in floats)


def selected(X: Any, names: Sequence[str]) -> Any:
    """Return the frame with these columns, in this order."""
    return X[list(names)] if hasattr(X, "iloc") else X.select(list(names))


def _schema_of(X: Any) -> Any:
    """Return the schema of X, which gives streams of Arrow; open a stream only if X has no other way to say it."""
    import pyarrow  # noqa: PLC0415 - slow to import

    for teller in (X, getattr(X, "schema", None)):
        if hasattr(teller, "__arrow_c_schema__"):
            return pyarrow.schema(teller)
    return pyarrow.RecordBatchReader.from_stream(X).schema


def _is_of(X: Any, library: str) -> bool:
    return type(X).__module__.split(".")[0] == library


def is_column(given: Any) -> bool:
    """Tell whether y or a weight is the name or the number of a column."""
    return isinstance(given, str) or (isinstance(given, Integral) and not isinstance(given, bool))
