"""The demo's data, generated or from a user's file, and the rows that it predicts."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

from streamsvm.reader.ingest.decompress import decompressed
from streamsvm.reader.ingest.run import read_chunks
from streamsvm.reader.limits import Limits
from streamsvm.service.demo.text import FLIPPED, TEST, TRAINING, Corpus, write_text

TEST_ROWS = 2000


@dataclass(frozen=True)
class DemoData:
    """
    train        LIBSVM text, plain or compressed
    test         plain LIBSVM text of the rows to predict
    description  of `test`, as the demo prints it
    remark       which accuracy to expect
    """

    train: Path
    test: Path
    description: str
    remark: str


def generated(directory: Path, size_bytes: int) -> DemoData:
    """Generate text-like data of about this size, and other rows to test with; the same on every machine."""
    corpus = Corpus()
    data = DemoData(
        directory / "train.svm",
        directory / "test.svm",
        "rows it has not seen",
        f"{FLIPPED:.0%} of the labels were flipped at random",
    )
    write_text(data.train, corpus, TRAINING, size=size_bytes)
    write_text(data.test, corpus, TEST, rows=TEST_ROWS)
    return data


def user_data(directory: Path, file: Path) -> DemoData:
    """A user's file; its first rows, which are trained on, too, are the ones to predict."""
    data = DemoData(file, directory / "test.svm", "first rows of the training file", "nothing was held out")
    with file.open("rb") as source, data.test.open("wb") as test:
        test.writelines(islice(_lines(source), TEST_ROWS))
    return data


def first_row(text: Path) -> dict[str, float]:
    """The first three features of the first row of LIBSVM text, as the service takes rows in JSON."""
    with text.open() as file:
        pairs = (word.split(":") for line in file for word in line.partition("#")[0].split()[1:])
        return {index: float(value) for index, value in islice(pairs, 3)}


def _lines(source: IO[bytes]) -> Iterator[bytes]:
    """Lines of LIBSVM text, plain or compressed."""
    rest = b""
    for piece in decompressed(read_chunks(source), Limits()):
        *lines, rest = (rest + bytes(piece)).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest + b"\n"
