"""Input of any size -> a published dataset, in one pass and bounded memory.

    python -m reader.ingest DIRECTORY [OPTIONS] < INPUT

Reads standard input and makes the dataset DIRECTORY. Prints one JSON object: the manifest's summary, or `{"problem":
...}` with exit code 1 for an input that cannot be read. Nothing is left of an input that fails.
"""

import argparse
import json
import os
import shutil
import sys
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from reader.decompress import decompressed
from reader.errors import InputError
from reader.limits import Limits
from reader.parsers import READERS
from reader.parsers.libsvm import LibsvmParser
from reader.shuffle import Shuffler
from storage.child import die_with_parent
from storage.csr import Rows
from storage.dataset import Manifest, publish_dataset, staged_path
from storage.feature_places import write_places

_READ_BYTES = 1 << 20
_MOST_LABELS = 10_000
_COUNTERS = ("explicit_zeros", "empty_rows", "blank_lines", "comment_lines")


def ingest(
    chunks: Iterable[bytes],
    final: Path,
    format_: str = "libsvm",
    index_base: str | int = "auto",
    limits: Limits | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Manifest:
    """Read `chunks`, plain or compressed, and publish the dataset `final`.

    threads: how many parse, and how many encode; by default the number of cores. The dataset does not depend on it.
    Its pieces can be followed while it grows, see storage.arriving. Raises InputError for a bad input, FileExistsError
    if there is such a dataset, or its staged directory: of an ingest that is running or was killed.
    """
    limits = limits or Limits()
    if final.exists():
        raise FileExistsError(f"{final.name} exists")
    staged = staged_path(final)
    staged.mkdir(parents=True)
    try:
        threads = threads or len(os.sched_getaffinity(0))
        parser = READERS[format_](index_base, limits, threads)
        manifest = _stage(_Counted(chunks), staged, parser, seed, threads)
        publish_dataset(staged, final, manifest)
        return manifest
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise


def _stage(chunks: "_Counted", staged: Path, parser: LibsvmParser, seed: int, threads: int) -> Manifest:
    uid = uuid.uuid4().hex
    labels = _LabelCounts()
    longest = 0
    shuffler = Shuffler(staged, uid, seed, threads)
    try:
        for rows in parser.parse_chunks(decompressed(chunks, parser.limits)):
            labels.add(rows)
            longest = max(longest, int(np.diff(rows.indptr).max()))
            shuffler.add(rows)
        blocks = shuffler.finish()
        places = shuffler.features.places
        checksum = 0 if places is None else write_places(staged, places)
    except BaseException:
        shuffler.abandon()
        raise
    return Manifest(
        uid=uid,
        index_base=parser.index_base,
        n_features=(parser.max_index + 1 - parser.index_base) if parser.max_index is not None else 0,
        n_rows=parser.rows,
        nnz=parser.nnz,
        labels=labels.counts,
        longest_row=longest,
        input_bytes=chunks.bytes,
        counters={name: int(getattr(parser, name)) for name in _COUNTERS},
        blocks=blocks,
        renumbered=0 if places is None else len(places),
        places_checksum=checksum,
    )


class _Counted:
    """Passes chunks through and adds up their bytes."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.bytes += len(chunk)
            yield chunk


class _LabelCounts:
    """How often each label value occurs."""

    def __init__(self) -> None:
        self.counts: dict[float, int] = {}

    def add(self, rows: Rows) -> None:
        values, counts = np.unique(rows.label, return_counts=True)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            self.counts[value] = self.counts.get(value, 0) + count
        if len(self.counts) > _MOST_LABELS:
            raise InputError(
                "too_many_labels", f"more than {_MOST_LABELS} different labels: this is not a classification data set"
            )


def read_chunks(file: IO[bytes]) -> Iterator[bytes]:
    """What a file holds, piece by piece."""
    while chunk := file.read(_READ_BYTES):
        yield chunk


def main() -> int:
    """Body of the command."""
    die_with_parent()
    parser = argparse.ArgumentParser(prog="python -m reader.ingest", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--format", choices=sorted(READERS), default="libsvm")
    parser.add_argument("--index-base", choices=("auto", "0", "1"), default="auto")
    parser.add_argument("--max-features", type=int, default=Limits.max_features)
    parser.add_argument("--max-bytes", type=int, default=Limits.max_bytes)
    options = parser.parse_args()
    base = options.index_base if options.index_base == "auto" else int(options.index_base)
    limits = Limits(max_features=options.max_features, max_bytes=options.max_bytes)
    try:
        manifest = ingest(read_chunks(sys.stdin.buffer), options.directory, options.format, base, limits)
    except InputError as error:
        print(json.dumps({"problem": error.problem()}))
        return 1
    print(json.dumps({"rows": manifest.n_rows, "uid": manifest.uid}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
