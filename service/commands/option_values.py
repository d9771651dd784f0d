"""What values of options mean."""

import argparse
from collections.abc import Callable
from typing import Any

NONE = "none"


def gamma(text: str) -> float | str:
    return text if text == "scale" else float(text)


def machines(text: str) -> int | str:
    return text if text == "all" else int(text)


def or_none(text: str, kind: Callable[[str], Any] = float) -> Any:
    return NONE if text == NONE else kind(text)


def values(text: str) -> float | list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no number, nor a list such as 0.1,1,10") from None
    return values[0] if len(values) == 1 else values


def weight(text: str) -> tuple[str, float]:
    label, weight = text.split("=")
    return label, float(weight)
