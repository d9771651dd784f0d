"""Limits on the size of an input."""

from dataclasses import dataclass, field

from streamsvm.reader.errors import InputError
from streamsvm.storage.machine.resources import memory_limit
from streamsvm.storage.run.state import FEATURE_BYTES

RATIO_FROM_BYTES = 64 << 20


@dataclass(frozen=True)
class InputLimits:
    """Bounds on one input.

    max_bytes       most decompressed bytes
    max_ratio       most decompressed bytes for each compressed byte, checked from 64 MiB of decompressed bytes on
    max_line_bytes  most bytes of a line without its line feed
    max_features    every feature index must be below it
    memory_bytes    memory of the machine or the control group, into which a job's arrays over all features must fit
    """

    max_bytes: int = 2**40
    max_ratio: float = 1000.0
    max_line_bytes: int = 2**24
    max_features: int = 2**27
    memory_bytes: int = field(default_factory=memory_limit)

    def check_width(self, width: int) -> None:
        """Raise InputError too_many_features if a job on rows with `width` features would exceed `memory_bytes`."""
        needed = FEATURE_BYTES * width
        if needed > self.memory_bytes:
            raise InputError(
                "too_many_features",
                f"a job needs {needed >> 20} MiB for {width} features, this machine has {self.memory_bytes >> 20} MiB",
            )

    def check_size(self, decoded: int, taken: int) -> None:
        """Raise InputError decompressed_too_large if `taken` bytes of input must not make `decoded` bytes of text."""
        if decoded > self.max_bytes:
            raise InputError("decompressed_too_large", f"the input has more than {self.max_bytes} bytes of text")
        if decoded > RATIO_FROM_BYTES and decoded > self.max_ratio * taken:
            what = f"the input decompresses to over {self.max_ratio:g} times its size"
            raise InputError("decompressed_too_large", what)
