"""The data that commands read (a path, - for standard input, a URL or a pattern), and notes about their columns."""

import re
from pathlib import Path
from typing import Any

from streamsvm.reader.sources.files import is_pattern, is_url, located

Source = Path | str  # a path, or the text of a URL or pattern


def file_or_url(text: str) -> Source:
    """Convert an argument to a Path if it names one file on this machine; return a URL or a pattern as it is."""
    if is_url(text):
        # A bad URL is reported when it is read.
        is_one = text.lower().startswith("file:///") and not is_pattern(text)
        return Path(located(text).path) if is_one else text
    return text if is_pattern(text) and not Path(text).exists() else Path(text)


def plain_name(source: Source) -> str:
    """Return the last part of a path or URL, without the special characters of a pattern."""
    last = source.name if isinstance(source, Path) else source.rstrip("/").rpartition("/")[2]
    name = last if isinstance(source, Path) else re.sub(r"\*|\[[^]]*\]", "", last)
    return name.strip("-_") or "data"


def dataset_name(source: Source) -> str:
    """Make a dataset's name from a file's name, without the file's endings."""
    name = re.sub(r"[^a-z0-9_-]+", "-", plain_name(source).split(".")[0].lower()).strip("-_")
    return name[:64] or "data"


def column_notes(view: dict[str, Any]) -> list[str]:
    """Write lines about columns, rows left out and warnings of a dataset, given as the dict that the API returns."""
    input_, lines = view.get("input") or {}, []
    if "header" in input_:
        label = f", labels in {_column(input_, 'label_column')}" if "label_column" in input_ else ""
        left_out = f", {len(input_['dropped'])} left out" if input_.get("dropped") else ""
        lines.append(f"header: {input_['header']}; {input_['n_columns']:,} columns{label}{left_out}")
    if view.get("rejected_rows"):
        lines.append(f"rows that could not be read, and were left out: {view['rejected_rows']:,}")
    return [*lines, *(f"{warning['code']}: {warning['message']}" for warning in view.get("warnings") or ())]


def _column(input_: dict[str, Any], option: str) -> str:
    return repr(input_[option]) if input_["has_names"] else f"column {input_[option]}"
