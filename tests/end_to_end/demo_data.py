"""The demo's data: generated, or a user's file; and the rows it predicts in the end."""

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from reader.decompress import decompressed
from reader.ingest import read_chunks
from reader.limits import Limits
from tests.bench.generate import corpus_of, generate

TEST_ROWS = 5000
_SEED = 0


@dataclass(frozen=True)
class DemoData:
    """
    train        LIBSVM text, plain or compressed
    test         plain LIBSVM text of the rows to predict
    description  what `test` is
    remark       what to expect of the accuracy
    """

    train: Path
    test: Path
    description: str
    remark: str


def generated(directory: Path, size_bytes: int) -> DemoData:
    """Text-like data, the same on every machine, and rows by other authors to test with."""
    data = DemoData(
        directory / "train.svm",
        directory / "test.svm",
        "held-out rows",
        f"; {corpus_of(_SEED).flip:.0%} of the labels were turned over at random",
    )
    generate(data.train, size_bytes=size_bytes, seed=_SEED)
    generate(data.test, rows=TEST_ROWS, seed=_SEED, test=True)
    return data


def given(directory: Path, file: Path) -> DemoData:
    """A user's file; nothing is held out of it."""
    data = DemoData(file, directory / "test.svm", "first rows of the training file", "; nothing was held out")
    with file.open("rb") as source, data.test.open("wb") as test:
        test.writelines(islice(_lines(source), TEST_ROWS))
    return data


def labels(text: Path) -> list[float]:
    """The label of each row."""
    with text.open("rb") as file:
        words = (line.split(b"#", 1)[0].split(None, 1) for line in file)
        return [float(first[0]) for first in words if first]


def largest_share(values: list[float]) -> float:
    """What saying the most frequent label always would get right."""
    return Counter(values).most_common(1)[0][1] / len(values)


def _lines(source):
    """Lines of LIBSVM text, whatever its compression."""
    rest = b""
    for piece in decompressed(read_chunks(source), Limits()):
        *lines, rest = (rest + bytes(piece)).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest + b"\n"
