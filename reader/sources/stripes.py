"""Decides which ranges of a source each machine reads: pure arithmetic.

Files are cut into stripes, which are dealt in turn, so that every machine has rows of all regions of a sorted file.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from streamsvm.reader.sources.files import SourceFile

STRIPE_BYTES = 64 << 20


@dataclass(frozen=True)
class Share:
    """The share of machine `number` among `of` machines, 0 <= number < of."""

    number: int = 0
    of: int = 1
    stripe_bytes: int = STRIPE_BYTES

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.of or self.stripe_bytes < 1:
            raise ValueError("a share is one of 0 to of - 1, and stripes have at least a byte")


@dataclass(frozen=True)
class Stripe:
    """Bytes [start, stop) of a file; in a text, the lines that begin there."""

    file: SourceFile
    start: int
    stop: int

    @property
    def is_whole(self) -> bool:
        """Whether the stripe is its whole file."""
        return self.start == 0 and self.stop == self.file.size


def deal(files: Sequence[SourceFile], share: Share, whole: Collection[SourceFile] = ()) -> list[Stripe]:
    """The stripes of a share, in the order of the files; adjacent stripes are joined. Files in `whole` are not cut.

    Each byte of each file is in exactly one of the shares 0 to `of` - 1.
    """
    stripes = [stripe for file in files for stripe in _cut(file, file.size if file in whole else share.stripe_bytes)]
    dealt: list[Stripe] = []
    for stripe in stripes[share.number :: share.of]:
        last = dealt[-1] if dealt else None
        if last is not None and last.file == stripe.file and last.stop == stripe.start:
            dealt[-1] = Stripe(stripe.file, last.start, stripe.stop)
        else:
            dealt.append(stripe)
    return dealt


def _cut(file: SourceFile, size: int) -> Iterator[Stripe]:
    for start in range(0, file.size, max(size, 1)):
        yield Stripe(file, start, min(start + size, file.size))
