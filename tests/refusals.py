"""Refusals: errors that have a code and a hint."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def refused(error: type[Exception], code: str, match: str | None = None) -> Iterator[Any]:
    """Check that a `with` statement ends in this error, with this code and a hint; yield what pytest.raises yields."""
    with pytest.raises(error, match=match) as caught:
        yield caught
    assert caught.value.code == code
    assert caught.value.hint
