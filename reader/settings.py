"""What the reader process is told: the `reader` part of a run's `run.json`."""

import json
from dataclasses import dataclass
from pathlib import Path

from storage.state import RUN_FILE


@dataclass(frozen=True)
class ReaderSettings:
    """
    dataset               directory of the dataset
    positive              label of the rows with y = +1; all others have y = -1
    C_positive, C_negative  C_i of the rows with y = +1 and y = -1
    loss                  "hinge" or "squared_hinge"
    bias                  value of a constant feature added to every row, or None
    eviction              "score" or "paper"
    screening             slack beyond which a row that rests at its bound is left out of a pass, or None
    """

    dataset: str
    positive: float
    C_positive: float
    C_negative: float
    loss: str
    bias: float | None
    cache_bytes: int
    eviction: str
    screening: float | None
    seed: int

    @classmethod
    def read(cls, run: Path) -> "ReaderSettings":
        """The settings in a run directory."""
        return cls(**json.loads((run / RUN_FILE).read_bytes())["reader"])
