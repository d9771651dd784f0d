"""Text-like sparse classification data of any size, as LIBSVM text, reproducible from a seed.

Meant to resemble a blog corpus of hashed 1-2-grams: Zipf features, log-normal row lengths, idf-like weights, unit rows,
and runs of rows by one author. ``python -m tests.bench.generate --size 500MB --seed 0 -o train.libsvm`` writes a file;
``generate`` does the same from Python. Memory does not depend on the size. The model is described in generate_kernel.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tests.bench.generate_kernel import ENTRY_BYTES, MAX_ROW_FACTOR, Corpus, write_chunk

CHUNK_NON_ZEROS = 250_000  # about 4 MB of text: small enough to keep in flight, large enough to hide the call
THREADS = 2
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
TRAINING, TEST = 0, 1


def corpus_of(seed: int, features: int = 1 << 22, row_length: float = 280.0, **settings) -> Corpus:
    """The corpus that a seed stands for; ``settings`` replaces any other field of Corpus.

    The defaults are calibrated for 30,000 to 60,000 rows of length 280 at C = 1 (hinge loss, no bias): about a third of
    the rows are then free and two fifths at the upper bound.
    """
    fields = {
        "salt": np.uint64(np.random.default_rng(seed).integers(2**63)),
        "n_features": features,
        "index_bits": max(2, (features - 1).bit_length()),
        "zipf": 1.05,
        "zipf_span": 0.0,
        "row_length": float(row_length),
        "length_sigma": 0.6,
        "rows_per_author": 10.0,
        "rarity_floor": 0.008,
        "vocabulary": 100,
        "vocabulary_share": 0.6,
        "informative_from": 20,
        "informative_to": 20_000,
        "informative_share": 0.15,
        "avoidance": 0.7,
        "constancy": 0.9,
        "signal": 20.0,
        "flip": 0.14,
    }
    corpus = Corpus(**{**fields, **settings})
    return corpus._replace(zipf_span=float(corpus.n_features + 1) ** (1.0 - corpus.zipf) - 1.0)


def generate(
    path: str | Path,
    *,
    size_bytes: int | None = None,
    rows: int | None = None,
    seed: int = 0,
    features: int = 1 << 22,
    row_length: float = 280.0,
    test: bool = False,
    **settings,
) -> tuple[int, int]:
    """Write a data set to ``path``; returns (rows, bytes) written.

    Stops after ``rows`` rows or at the first row end at or past ``size_bytes``, whichever comes first; one of them is
    required. ``row_length`` is the mean number of non-zeros in a row. ``test`` draws other rows by other authors from
    the same corpus (same hyperplane, same features). ``settings`` are fields of Corpus.
    """
    if size_bytes is None and rows is None:
        raise ValueError("generate needs size_bytes or rows")
    corpus = corpus_of(seed, features, row_length, **settings)
    n_rows = n_bytes = 0
    with Path(path).open("wb") as file:
        for buffer, row_ends in _chunks(corpus, seed, TEST if test else TRAINING):
            keep = _rows_to_keep(row_ends, n_rows, n_bytes, rows, size_bytes)
            n_bytes += _write(file, buffer, row_ends, keep)
            n_rows += keep
            if keep < row_ends.size or n_rows == rows or (size_bytes is not None and n_bytes >= size_bytes):
                return n_rows, n_bytes
    raise AssertionError("the chunks never end")


def _rows_to_keep(row_ends, n_rows, n_bytes, rows, size_bytes) -> int:
    keep = row_ends.size
    if rows is not None:
        keep = min(keep, rows - n_rows)
    if size_bytes is not None:
        keep = min(keep, int(np.searchsorted(row_ends, size_bytes - n_bytes)) + 1)
    return keep


def _write(file: BinaryIO, buffer: np.ndarray, row_ends: np.ndarray, keep: int) -> int:
    end = int(row_ends[keep - 1]) if keep else 0
    file.write(memoryview(buffer[:end]))
    return end


def _chunks(corpus: Corpus, seed: int, stream: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Chunks without end, in order, made a few ahead: (text (bytes,), row ends (rows,))."""
    with ThreadPoolExecutor(THREADS) as pool:
        pending: deque = deque()
        number = 0
        try:
            while True:
                while len(pending) <= THREADS:
                    pending.append(pool.submit(_chunk, corpus, seed, stream, number))
                    number += 1
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def _chunk(corpus: Corpus, seed: int, stream: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    n_rows = max(1, int(CHUNK_NON_ZEROS / corpus.row_length))
    longest = int(MAX_ROW_FACTOR * corpus.row_length) + 1
    buffer = np.empty(n_rows * (4 + longest * ENTRY_BYTES), np.uint8)  # pages never written cost nothing
    row_ends = np.empty(n_rows, np.int64)
    chunk_seed = np.random.SeedSequence((seed, stream, number)).generate_state(1, np.uint64)[0]
    write_chunk(chunk_seed, corpus, buffer, row_ends)
    return buffer, row_ends


def parse_size(text: str) -> int:
    """Bytes in '500MB', '2G' or '1000000'; units are decimal."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)B?", text.strip().upper())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 500MB")
    return int(float(match[1]) * UNITS[match[2]])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.generate", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--size", type=parse_size, help="stop at this many bytes, such as 500MB")
    parser.add_argument("--rows", type=int, help="stop at this many rows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--features", type=int, default=1 << 22)
    parser.add_argument("--row-length", type=float, default=280.0, help="mean number of non-zeros in a row")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--test-rows", type=int)
    parser.add_argument("--test-output")
    arguments = parser.parse_args()
    if arguments.size is None and arguments.rows is None:
        parser.error("give --size or --rows")
    if (arguments.test_rows is None) != (arguments.test_output is None):
        parser.error("--test-rows and --test-output go together")
    return arguments


def _report(path: str, rows: int, n_bytes: int, seconds: float) -> None:
    print(f"{path}: {rows:,} rows, {n_bytes / 1e6:,.0f} MB in {seconds:.1f} s")


def main() -> None:
    arguments = _arguments()
    common = {"seed": arguments.seed, "features": arguments.features, "row_length": arguments.row_length}
    start = time.perf_counter()
    written = generate(arguments.output, size_bytes=arguments.size, rows=arguments.rows, **common)
    _report(arguments.output, *written, time.perf_counter() - start)
    if arguments.test_output:
        start = time.perf_counter()
        written = generate(arguments.test_output, rows=arguments.test_rows, test=True, **common)
        _report(arguments.test_output, *written, time.perf_counter() - start)


if __name__ == "__main__":
    main()
