"""The problem of the end-to-end tests."""

from tests.end_to_end.conftest import problem, text

__all__ = ["problem", "text"]
