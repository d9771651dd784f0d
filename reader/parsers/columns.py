"""Columns of a table that are no features."""

from dataclasses import dataclass

from reader.errors import InputError
from reader.options import InputOptions
from reader.parsers.matrix import column_number


@dataclass(frozen=True)
class Columns:
    """Places, from 0, of the labels, the weights and the groups of rows; None for what there is not."""

    label: int | None
    weight: int | None
    group: int | None

    @property
    def aside(self) -> list[int]:
        """All that are no features."""
        return [place for place in (self.label, self.weight, self.group) if place is not None]


def find_columns(label: int | None, options: InputOptions, names: list[str] | None, n_columns: int) -> Columns:
    """With the other columns that the options name. InputError weight_column_missing and the like, same_column."""
    weight, group = (
        None if wanted is None else column_number(wanted, names, n_columns, option)
        for option, wanted in (("weight_column", options.weight_column), ("group_column", options.group_column))
    )
    found = Columns(label, weight, group)
    if len(set(found.aside)) < len(found.aside):
        raise InputError("same_column", "a column is named for two of labels, weights and groups", line=1)
    return found
