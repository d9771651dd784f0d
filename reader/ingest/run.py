"""Turns an input of any size into a published dataset, in one pass and bounded memory.

    python -m streamsvm.reader.ingest.run DIRECTORY [OPTIONS] < INPUT
    python -m streamsvm.reader.ingest.run DIRECTORY [OPTIONS] --source URL [--source URL ...]

Reads standard input, or the files of a source, and makes the dataset DIRECTORY. Prints one JSON object: the dataset's
`rows` and `uid`, or `{"problem": ...}` with exit code 1 for an input that cannot be read; then there is no dataset.
"""

import argparse
import json
import shutil
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from streamsvm.reader.certificate.metrics import Ranking
from streamsvm.reader.errors import InputError, too_large_to_read
from streamsvm.reader.ingest.append import append_rows, manifest_of
from streamsvm.reader.ingest.ranges import SourceInput
from streamsvm.reader.ingest.reading import Reading, check_weights
from streamsvm.reader.ingest.renumber import Renumbering
from streamsvm.reader.ingest.shared_schema import SharedSchema
from streamsvm.reader.ingest.shuffle import BUCKETS, Shuffler
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions, add_input_options, input_options
from streamsvm.reader.parsers import OF_PROGRAMS
from streamsvm.reader.parsers.tables.mixed import feature_names
from streamsvm.reader.parsers.tables.mixed_columns import first_names
from streamsvm.reader.parsers.values import LabelNames
from streamsvm.reader.sources.files import list_files
from streamsvm.storage.blocks.dataset import IngestProgress, publish_dataset, staged_path
from streamsvm.storage.blocks.feature_files import write_listed, write_places, write_words
from streamsvm.storage.blocks.manifest import Manifest, Profile, read_manifest, write_profile
from streamsvm.storage.errors import NO_ROOM, OutOfSpace
from streamsvm.storage.features.rows import MOST_FEATURES, FeatureStatistics, far_scales, write_statistics
from streamsvm.storage.machine.child import WorkLimit, die_with_parent, leave
from streamsvm.storage.machine.resources import usable_cores
from streamsvm.storage.rows.csr import Array, Rows

MOST_ROWS, MOST_COLUMNS = 4096, 512
_LEAST_ROWS = 50  # rows, before anything is said of them
_LEAST_OF_CLASS = 20  # rows of each class, before one column is said to tell the classes apart
_MOST_CLASSES = 100
LEAK = 0.99  # the area under the ROC curve of one column alone, beyond which its values are hardly known beforehand
_CONTRARY = 0.02  # the share of rows that are equal to others of another class, beyond which this is said


class Questions:
    """Keeps the first rows of an input. Call `add` with rows in order, not of strings or documents, then `warnings`."""

    def __init__(self) -> None:
        self._rows: list[Rows] = []
        self._count = 0
        self._is_asked = True

    def add(self, rows: Rows) -> None:
        """Keep what is still wanted of these rows; with a feature beyond MOST_COLUMNS, keep none any more."""
        if not self._is_asked or self._count >= MOST_ROWS:
            return
        taken = next(rows.pieces(MOST_ROWS - self._count))
        if int(taken.indices.max(initial=0)) > MOST_COLUMNS:
            self._is_asked, self._rows = False, []
            return
        self._rows.append(taken)
        self._count += len(taken)

    def warnings(
        self,
        labels: Mapping[float, int],
        statistics: FeatureStatistics | None,
        input_: dict[str, Any] | None,
        base: int,
    ) -> Iterator[dict[str, str]]:
        """Yield a code and a message for each thing found.

        labels      label -> number of rows, of all rows; empty if labels are no classes
        statistics  those of the features of all rows
        input_      `Manifest.input`, which names the columns of a table; base: the number of the first feature
        """
        if not self._is_asked or self._count < _LEAST_ROWS or statistics is None:
            return
        X, y = _dense(self._rows), np.concatenate([rows.label for rows in self._rows])
        names = feature_names(input_, set(range(X.shape[1])), base)
        which = "" if sum(labels.values()) == len(y) else f" of the first {len(y):,} rows"
        if constant := [names[j] for j in _constant(X[0], statistics.of_width(X.shape[1]), input_, base)]:
            what = f"columns have one value in all rows: {first_names(constant)}"
            yield {"code": "columns_constant", "message": f"{what}. They say nothing; leave them out: drop_columns"}
        if len(labels) == 2 and (found := [names.get(j, f"feature {j}") for j in _leaks(X, y)]):
            what = f"columns tell both classes apart{which}, each alone, nearly without a fault: {first_names(found)}"
            help_ = "If they are not known before the label is, leave them out: the model would be worse than it seems"
            yield {"code": "columns_like_labels", "message": f"{what}. {help_}"}
        if 2 <= len(labels) <= _MOST_CLASSES and (share := _contrary(X, y)) > _CONTRARY:
            what = f"{share:.1%} of the rows{which} are equal to rows that more often have another label"
            yield {"code": "rows_contrary", "message": f"{what}: no model is right on them"}


def _dense(rows: list[Rows]) -> Array:
    """The rows as float32 (n, width), column j is feature j."""
    width = 1 + max(int(each.indices.max(initial=0)) for each in rows)
    X = np.zeros((sum(map(len, rows)), width), np.float32)
    begin = 0
    for each in rows:
        X[begin + np.repeat(np.arange(len(each)), np.diff(each.indptr)), each.indices] = each.values
        begin += len(each)
    return X


def _constant(first: Array, of_all: FeatureStatistics, input_: dict[str, Any] | None, base: int) -> list[int]:
    """The columns of numbers of a table, not of categories, that are in all rows what they are in the first row."""
    if input_ is None or "columns" not in input_:
        return []
    # None is larger, and so all are equal if their sum is that of equal ones; sums of up to 2^29 equal ones are exact.
    is_one = (of_all.largest == np.abs(first)) & (of_all.sums == first.astype(float) * of_all.n_rows)
    end = base + len(input_["columns"]) - len(input_["categorical"])
    return (base + np.flatnonzero(is_one[base:end])).tolist()


def _leaks(X: Array, y: Array) -> list[int]:
    """The columns of which each alone ranks the rows of one class above those of the other."""
    is_first = y == y[0]
    if min(is_first.sum(), (~is_first).sum()) < _LEAST_OF_CLASS:
        return []
    areas = [Ranking(column[is_first], column[~is_first]).figures()["auc"] for column in X.T.astype(float)]
    return [j for j, area in enumerate(areas) if area is not None and max(area, 1.0 - area) > LEAK]


def _contrary(X: Array, y: Array) -> float:
    """The share of rows that are equal to others, of which more have another label."""
    _, groups = np.unique(X.view(np.dtype((np.void, X.itemsize * X.shape[1]))).ravel(), return_inverse=True)
    pairs, counts = np.unique(np.stack([groups, np.unique(y, return_inverse=True)[1]]), axis=1, return_counts=True)
    most = np.zeros(groups.max() + 1, np.int64)
    np.maximum.at(most, pairs[0], counts)
    return 1.0 - float(most.sum()) / len(y)


_READ_BYTES = 1 << 20


def ingest(
    chunks: Iterable[bytes] | SourceInput,
    final: Path,
    options: InputOptions | None = None,
    limits: InputLimits | None = None,
    seed: int = 0,
    threads: int | None = None,
    schema: SharedSchema | None = None,
) -> Manifest:
    """Read `chunks`, plain or compressed, publish the dataset `final`, and return its manifest.

    threads  number of parsing threads, and of encoding threads; None: the cores. The dataset does not depend on it
    schema   of the whole dataset if `chunks` is one shard of it, see `reader.ingest.shared_schema`

    A job can read pieces while the dataset grows, see storage.blocks.block. Raises InputError if the input cannot be
    read, FileExistsError if the dataset exists, or if an ingest that runs or was killed has made its staged directory.
    """
    if final.exists():
        raise FileExistsError(f"{final.name} exists")
    threads = threads or usable_cores()
    staged = staged_path(final)
    staged.mkdir(parents=True)
    try:
        schema = schema or SharedSchema(uuid.uuid4().hex, (), None, None)
        options = options or InputOptions()
        if schema.input is not None:
            options = replace(options, like=schema.input)
        names = LabelNames(options.label_type, schema.names)
        reading = Reading(chunks, options, limits or InputLimits(), threads, staged, names)
        manifest = _stage(reading, staged, seed, threads, schema)
        (limits or InputLimits()).check_width(manifest.width)
        publish_dataset(staged, final, manifest)
        return manifest
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise


def _stage(reading: Reading, staged: Path, seed: int, threads: int, schema: SharedSchema) -> Manifest:
    buckets = BUCKETS if reading.options.shuffle == "yes" else 1
    features = Renumbering() if schema.features is None else Renumbering.from_numbering(schema.features)
    shuffler = Shuffler(staged, schema.uid, seed, threads, 0, schema.first_block, features, buckets)
    try:
        progress, questions = IngestProgress(staged), Questions()
        for rows in reading.rows():
            if reading.holds_strings:
                features.leave()
            elif reading.parser.words is None and reading.options.format != "batches":  # not a matrix of a program
                questions.add(rows)
            if not features.is_settled:
                features.in_rows = reading.parser.feature_places
            shuffler.add(rows)
            progress.note(reading.input.taken, reading.lengths.rows, reading.nnz, reading.input.total)
        check_weights(reading.weights, reading.lengths.rows)
        progress.remove()
        blocks = shuffler.finish()
        manifest, numbering = manifest_of(reading, schema.uid, blocks), features.numbering
        if numbering.places is not None:
            checksum = write_places(staged, numbering.places)
            manifest = replace(manifest, renumbered=len(numbering.places), places_checksum=checksum)
        if len(numbering.listed):
            write_listed(staged, numbering.listed)
        own_width = features.own_width(manifest.input_width)
        manifest = replace(manifest, own_width=own_width, listed=len(numbering.listed))
        statistics, lengths = reading.statistics, reading.lengths
        if statistics is not None:
            write_statistics(staged, statistics.of_width(min(manifest.width, MOST_FEATURES)))
        profile = Profile(
            lengths.rows,
            lengths.counts,
            tuple(lengths.longest),
            features.frequent,
            features.counted_rows,
            () if statistics is None else far_scales(statistics),
            (
                *reading.warnings,
                *_unused_indicators(reading),
                *questions.warnings(reading.labels, statistics, reading.parser.input, manifest.index_base),
            ),
        )
        write_profile(staged, profile)
        if (words := reading.words) is not None:
            write_words(staged, words)
    except BaseException:
        shuffler.abandon()
        raise
    return manifest


def _unused_indicators(reading: Reading) -> Iterator[dict[str, str]]:
    """Yield a warning if columns of a new dataset have an indicator feature of missing values, but no missing value."""
    input_, statistics = reading.parser.input or {}, reading.statistics
    if input_.get("missing") != "indicator" or statistics is None or reading.options.like is not None:
        return
    names = [name for name in input_["columns"] if name not in input_["categorical"]]
    first = reading.index_base + len(names)
    rows = statistics.of_width(first + len(names)).rows[first:]
    if whole := [name for name, count in zip(names, rows.tolist(), strict=True) if not count]:
        what = f"columns without a missing value have features that say where one is: {first_names(whole)}"
        yield {"code": "indicators_unused", "message": f"{what}. These are 0 in all rows; missing=zero makes none"}


def read_chunks(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a file in chunks of at most 1 MiB."""
    while chunk := file.read(_READ_BYTES):
        yield chunk


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that describe an input: the directory, the limits, the source and the input options."""
    parser.add_argument("directory", type=Path)
    parser.add_argument("--max-features", type=int, default=InputLimits.max_features)
    parser.add_argument("--max-bytes", type=int, default=InputLimits.max_bytes)
    parser.add_argument("--source", action="append", metavar="URL", help="a file to read, or a pattern of files")
    add_input_options(parser, tuple(OF_PROGRAMS))


def limits_of(given: argparse.Namespace) -> InputLimits:
    """Return the limits on the input that the command line sets."""
    return InputLimits(max_features=given.max_features, max_bytes=given.max_bytes)


def main(*arguments: str) -> int:
    """Read an input into a dataset, or add its rows to one (--append), as `arguments` say; return the exit code."""
    die_with_parent()
    parser = argparse.ArgumentParser(prog="python -m streamsvm.reader.ingest.run", description=__doc__)
    add_reading_options(parser)
    parser.add_argument("--append", action="store_true", help="add the rows to the dataset that is there")
    given = parser.parse_args(arguments)
    limits, memory = limits_of(given), WorkLimit()
    try:
        options, files = input_options(given), list_files(given.source or ())
        memory.count(sum(file.size for file in files))
        chunks = SourceInput(files, limits) if given.source else memory.counted(read_chunks(sys.stdin.buffer))
        if given.append:
            # Appending also reads the dataset's feature numbers and words: their bytes count as input.
            known = (file.stat().st_size for file in given.directory.iterdir() if file.is_file())
            memory.count(4 * read_manifest(given.directory).width + sum(known))
            manifest = append_rows(chunks, given.directory, options, limits, threads=usable_cores())
        else:
            manifest = ingest(chunks, given.directory, options, limits)
    except (InputError, MemoryError) as error:
        fault = error if isinstance(error, InputError) else too_large_to_read(memory.most)
        print(json.dumps({"problem": fault.problem()}))
        return 1
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        full = OutOfSpace("the disk is full")
        print(json.dumps({"problem": InputError(full.code, full.message, hint=full.hint).problem()}))
        return 1
    print(json.dumps({"rows": manifest.n_rows, "uid": manifest.uid}))
    return 0


if __name__ == "__main__":
    leave(main(*sys.argv[1:]))
