"""How much of an input the readers accept."""

from dataclasses import dataclass, field

from streamsvm.reader.errors import InputError
from streamsvm.storage.machine.free_memory import memory_limit
from streamsvm.storage.run.state import FEATURE_BYTES


@dataclass(frozen=True)
class Limits:
    """Bounds on one input.

    max_bytes       decoded bytes
    max_ratio       decoded over compressed bytes, looked at once 64 MiB were decoded
    max_line_bytes  bytes of a line without its line feed
    max_features    every feature index is below it
    memory_bytes    of the machine, or of the control group: what a job holds of the features has to fit
    """

    max_bytes: int = 2**40
    max_ratio: float = 1000.0
    max_line_bytes: int = 2**24
    max_features: int = 2**27
    memory_bytes: int = field(default_factory=memory_limit)

    def check_width(self, width: int) -> None:
        """InputError too_many_features if no job on rows with so many features could run here."""
        needed = FEATURE_BYTES * width
        if needed > self.memory_bytes:
            raise InputError(
                "too_many_features",
                f"a job would hold {needed >> 20} MiB for {width} features, and {self.memory_bytes >> 20} MiB are here",
            )
