"""Refusals: errors that have a code and a hint."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

OF_COLUMNS = ("not_numeric", "column_type", "missing_value")  # codes whose hint depends on the column


@contextmanager
def refused(error: type[Exception], code: str, match: str | None = None) -> Iterator[Any]:
    """Check that a `with` statement ends in this error, with this code and a hint; yield what pytest.raises yields."""
    with pytest.raises(error, match=match) as caught:
        yield caught
    assert caught.value.code == code
    assert caught.value.hint
