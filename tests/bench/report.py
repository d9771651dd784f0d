"""Pieces of Markdown."""

from __future__ import annotations

from textwrap import wrap

_WIDTH = 120


def cell(number: float | None, form: str = ".3g") -> str:
    """A number for a table."""
    return "-" if number is None else f"{number:{form}}"


def row(*cells: object) -> str:
    """A line of a table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def header(*names: str, words: int = 1) -> list[str]:
    """The first two lines of a table; its first `words` columns are words, the others numbers."""
    return [row(*names), row(*["---"] * words, *["--:"] * (len(names) - words))]


def prose(text: str) -> list[str]:
    """Lines of a paragraph, and an empty one after it."""
    return [*wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False), ""]
