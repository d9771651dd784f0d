"""Words for a person about a dataset, from its view.

The module imports nothing, so that commands that only ask begin at once.
"""

from typing import Any


def told_of_columns(view: dict[str, Any]) -> list[str]:
    """Lines for a person about a dataset's columns, by its view; none if it is no table."""
    input_, lines = view.get("input") or {}, []
    if "header" in input_:
        label = f", labels in {_column(input_, 'label_column')}" if "label_column" in input_ else ""
        left_out = f", {len(input_['dropped'])} left out" if input_.get("dropped") else ""
        lines.append(f"header: {input_['header']}; {input_['n_columns']:,} columns{label}{left_out}")
    return [*lines, *(f"{warning['code']}: {warning['message']}" for warning in view.get("warnings") or ())]


def _column(input_: dict[str, Any], option: str) -> str:
    return repr(input_[option]) if input_["has_names"] else f"column {input_[option]}"
