"""A row that a model can predict, for the command that its page shows."""

from collections.abc import Mapping
from typing import Any, NamedTuple

_MOST_COLUMNS = 20  # of a table: the command stays one that can be read


class Example(NamedTuple):
    """A body of a prediction: its media type, and its text with line ends as printf writes them."""

    media_type: str
    text: str


def example_of(model: Mapping[str, Any], input_: Mapping[str, Any] | None) -> Example | None:
    """A row of the form that the model was trained on; None if that takes too long a line.

    model   as `model_view` describes it
    input_  of what its dataset was read in, with all columns and words; None: of LIBSVM text
    """
    name = input_["format"] if input_ else "libsvm"
    if name == "text":
        return Example("text/plain", r"a text\nanother\n")
    if input_ and "columns" in input_:
        return _table(input_) if len(input_["columns"]) <= _MOST_COLUMNS else None
    first, last = model["index_base"], model["index_base"] + model["features"] - 1
    features = f"{first}:0.5 {last}:1.2" if last > first else f"{first}:0.5"
    return Example("text/libsvm", rf"0 {features}\n") if name == "libsvm" else None


def _table(input_: Mapping[str, Any]) -> Example:
    words = input_.get("dictionary", {})
    row = ",".join(_quoted(next(iter(words.get(column, ())), "0.5")) for column in input_["columns"])
    names = ",".join(map(_quoted, input_["columns"])) + r"\n" if input_["has_names"] else ""
    return Example("text/csv", rf"{names}{row}\n")


def _quoted(field: str) -> str:
    """A field of CSV within single quotes of a shell, within what printf takes for its format."""
    if set(field) & set(',"\r\n'):
        field = '"' + field.replace('"', '""') + '"'
    return field.replace("\\", r"\\").replace("%", "%%").replace("\n", r"\n").replace("\r", r"\r").replace("'", r"'\''")
