"""Refusals: errors that have a code and a hint."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from streamsvm.reader.errors import HINTS, InputError

_OF_COLUMNS = ("not_numeric", "column_type", "missing_value")  # codes whose hint depends on the column


@contextmanager
def refused(error: type[Exception], code: str, match: str | None = None) -> Iterator[Any]:
    """Check that a `with` statement ends in this error, with this code and a hint; yield what pytest.raises yields."""
    with pytest.raises(error, match=match) as caught:
        yield caught
    assert caught.value.code == code
    assert caught.value.hint


def fault_of(read: Callable[..., Any], *arguments: Any, **options: Any) -> InputError:
    """Return the fault at which reading ends; it has the hint of its code, or one of the column."""
    with pytest.raises(InputError) as caught:
        read(*arguments, **options)
    assert caught.value.code in _OF_COLUMNS or caught.value.hint == HINTS[caught.value.code]
    return caught.value
