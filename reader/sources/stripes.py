"""Which parts of a source a machine reads: pure arithmetic.

Files are cut into stripes, and stripes are dealt in turn: every machine has some of each part of a file that is sorted.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from streamsvm.reader.sources.files import SourceFile

STRIPE_BYTES = 64 << 20


@dataclass(frozen=True)
class Share:
    """What machine `number` of `of` reads, 0 <= number < of."""

    number: int = 0
    of: int = 1
    stripe_bytes: int = STRIPE_BYTES

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.of or self.stripe_bytes < 1:
            raise ValueError("a share is one of 0 to of - 1, and stripes have at least a byte")


@dataclass(frozen=True)
class Stripe:
    """Bytes [start, stop) of a file: of a text that is cut, the lines that begin there."""

    file: SourceFile
    start: int
    stop: int

    @property
    def is_whole(self) -> bool:
        """Whether it is all of its file."""
        return self.start == 0 and self.stop == self.file.size


def deal(files: Sequence[SourceFile], share: Share, whole: Collection[SourceFile] = ()) -> list[Stripe]:
    """The stripes of a share, in the order of the files; neighbours are one. Those in `whole` are not cut.

    The shares 0 to `of` - 1 have each byte of each file once. Empty files are in none.
    """
    stripes = [stripe for file in files for stripe in _cut(file, file.size if file in whole else share.stripe_bytes)]
    found: list[Stripe] = []
    for stripe in stripes[share.number :: share.of]:
        last = found[-1] if found else None
        if last is not None and last.file == stripe.file and last.stop == stripe.start:
            found[-1] = Stripe(stripe.file, last.start, stripe.stop)
        else:
            found.append(stripe)
    return found


def _cut(file: SourceFile, size: int) -> Iterator[Stripe]:
    for start in range(0, file.size, max(size, 1)):
        yield Stripe(file, start, min(start + size, file.size))
