"""Parses and writes values of one word, as on a command line: sizes such as 256MiB, lists of numbers, names."""

import argparse
import json
import re
from typing import Any

_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)


def number_or_scale(text: str) -> float | str:
    """Parse a number, or `scale`."""
    return text if text == "scale" else float(text)


def number_or_all(text: str) -> int | str:
    """Parse a whole number, or `all`."""
    return text if text == "all" else int(text)


SEARCHES = ("auto", "auto-1se")


def numbers(text: str) -> float | list[float] | str:
    """Parse a number, several with commas between, `LOW:HIGH:COUNT`, `auto` or `auto-1se`."""
    if text in SEARCHES or ":" in text:
        return text
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        known = f"list such as 0.1,1,10 or 1e-3:10:9, nor {' or '.join(SEARCHES)}"
        raise argparse.ArgumentTypeError(f"{text} is no number, {known}") from None
    return values[0] if len(values) == 1 else values


def grid(text: str) -> list[float] | str:
    """The numbers that `LOW:HIGH:COUNT` means, each the same factor above the one before; another text as it is."""
    try:
        low, high, count = text.split(":")
        factor = (float(high) / float(low)) ** (1.0 / (int(count) - 1))
        return [float(f"{float(low) * factor**k:.6g}") for k in range(int(count))] or text
    except (ValueError, ZeroDivisionError, OverflowError, TypeError):
        return text


def names_or_json(text: str) -> Any:
    """Parse names with commas between them, or a list in JSON."""
    try:
        return json.loads(text) if text.startswith("[") else text.split(",")
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no JSON") from None


def label_and_number(text: str) -> dict[str, float] | str:
    """Parse `LABEL=NUMBER`, or `balanced`."""
    if text == "balanced":
        return text
    label, number = text.split("=")
    return {label: float(number)}


def option_and_value(text: str) -> dict[str, Any]:
    """Parse `NAME=VALUE`; a value is written as in JSON, or is `none` or another word."""
    name, value = text.split("=", 1)
    try:
        return {name: json.loads(value)}
    except ValueError:
        return {name: None if value == "none" else value}


def parse_size(text: str) -> int:
    """Parse a number of bytes; K, M, G, T are powers of 1000, Ki, Mi, Gi, Ti of 1024. Raises ValueError."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a size such as 256MiB")
    number, unit, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** _UNITS[unit.lower()])


def format_size(size: float) -> str:
    """Write a number of bytes for people, such as 1.5 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if round(size, 1) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
