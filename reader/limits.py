"""How much of an input the readers accept."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds on one input.

    max_bytes       decoded bytes
    max_ratio       decoded over compressed bytes, looked at once 64 MiB were decoded
    max_line_bytes  bytes of a line without its line feed
    max_features    every feature index is below it
    """

    max_bytes: int = 2**40
    max_ratio: float = 1000.0
    max_line_bytes: int = 2**24
    max_features: int = 2**27
