"""Values of a job's fields as people write them in one word: on a command line."""

import argparse
import json
from typing import Any


def number_or_scale(text: str) -> float | str:
    """A number, or `scale`."""
    return text if text == "scale" else float(text)


def number_or_all(text: str) -> int | str:
    """A whole number, or `all`."""
    return text if text == "all" else int(text)


def numbers(text: str) -> float | list[float]:
    """A number, or several with commas between."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no number, nor a list such as 0.1,1,10") from None
    return values[0] if len(values) == 1 else values


def names_or_json(text: str) -> Any:
    """Names with commas between, or a list in JSON."""
    try:
        return json.loads(text) if text.startswith("[") else text.split(",")
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no JSON") from None


def label_and_number(text: str) -> dict[str, float]:
    """`LABEL=NUMBER`."""
    label, number = text.split("=")
    return {label: float(number)}
