"""Ingest stores each row once, at a random place, in bounded memory; or there is no dataset."""

import itertools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import zstandard

from streamsvm.reader.errors import HINTS, InputError
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.ingest.shuffle import PIECE_WORDS
from streamsvm.reader.options import InputOptions
from streamsvm.storage.blocks.block import BlockWriter
from streamsvm.storage.blocks.dataset import ArrivingDataset, Dataset, staged_path
from streamsvm.storage.blocks.manifest import read_manifest
from tests.contracts.problems import joined, libsvm_text, random_problem, stored_rows
from tests.refusals import refused
from tests.storage.rows import assert_same_rows

ROOT = Path(__file__).resolve().parents[3]


def rows_of(label, indptr, indices, values) -> Counter:
    """The multiset of rows."""
    return Counter(
        (float(label[i]), indices[a:b].tobytes(), values[a:b].tobytes())
        for i, (a, b) in enumerate(itertools.pairwise(indptr))
    )


@pytest.mark.parametrize("index_base", [0, 1])
def test_rows_are_those_of_the_input(tmp_path, index_base):
    X, y = random_problem(3000)
    X = X.sorted_indices()
    y = y * np.random.default_rng(0).choice([1.0, 0.1, 1e300], 3000)
    text = libsvm_text(X, y, index_base)
    chunks = [text[start : start + 977] for start in range(0, len(text), 977)]
    manifest = ingest(chunks, tmp_path / "data", InputOptions(index_base=index_base))
    assert manifest == read_manifest(tmp_path / "data")
    rows, ids = stored_rows(tmp_path / "data")
    assert ids == list(range(3000))
    expected = rows_of(y, X.indptr, (X.indices + index_base).astype(np.int32), X.data)
    assert rows_of(rows.label, rows.indptr, rows.indices, rows.values) == expected
    # The rows are not in the input's order.
    assert np.mean(rows.label == y) < 0.9
    assert (manifest.n_rows, manifest.nnz, manifest.input_bytes) == (3000, X.nnz, len(text))
    assert manifest.labels == dict(Counter(y.tolist()))
    assert manifest.longest_row == np.diff(X.indptr).max()
    assert manifest.n_features == X.indices.max() + 1
    assert manifest.width == manifest.n_features + index_base
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_many_blocks_hold_every_row_once(tmp_path):
    """The second feature of a row is its number in the input."""
    n = 200_000
    text = b"".join(b"%d %d:1 %d:0.5\n" % (k % 2, k % 1000 + 1, k + 2000) for k in range(n))
    ingest([text], tmp_path / "data")
    manifest = read_manifest(tmp_path / "data")
    assert len(manifest.blocks) > 10
    rows, ids = stored_rows(tmp_path / "data")
    assert ids == list(range(n))
    seconds = rows.indices[1::2] - 2000
    assert np.array_equal(np.sort(seconds), np.arange(n))
    assert np.array_equal(rows.indices[0::2], seconds % 1000 + 1)
    assert np.array_equal(rows.label, seconds % 2)


def test_label_sorted_input_is_spread_over_the_blocks(tmp_path):
    n, positives = 150_000, 45_000
    text = b"".join(b"%d %d:1 %d:1.5\n" % (k < positives, k % 500 + 1, 501 + k % 77) for k in range(n))
    ingest([text], tmp_path / "data")
    dataset = Dataset(tmp_path / "data")
    shares, correlations = [], []
    for number, info in enumerate(dataset.manifest.blocks):
        labels = np.concatenate([dataset.piece(location).rows.label for location in dataset.pieces(number)])
        shares.append((labels.mean() - positives / n) / np.sqrt(0.3 * 0.7 / info.rows))
        correlations.append(np.mean(labels[: len(labels) // 2]) - np.mean(labels[len(labels) // 2 :]))
    assert len(shares) > 5
    # Within what chance allows a random sample, and inside a block too.
    assert np.abs(shares).max() < 5
    assert np.abs(correlations).max() < 0.1


def test_seed_decides_the_assignment(tmp_path):
    X, y = random_problem(500)
    orders = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        ingest([libsvm_text(X, y)], tmp_path / name, seed=seed)
        orders.append(stored_rows(tmp_path / name)[0].values.tobytes())
    assert orders[0] == orders[1] != orders[2]


def test_the_dataset_does_not_depend_on_threads_and_chunks(tmp_path):
    found = []
    for threads, size in ((1, 1 << 20), (2, 1 << 20), (3, 99_991)):
        directory = tmp_path / f"{threads}"
        ingest([LONG[k : k + size] for k in range(0, len(LONG), size)], directory, threads=threads)
        with_ids = stored_rows(directory)[0]
        sizes = [(block.rows, block.nnz, block.bytes) for block in read_manifest(directory).blocks]
        found.append((sizes, with_ids.label.tobytes(), with_ids.indptr.tobytes(), with_ids.indices.tobytes()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("n_rows", [1, 40])
def test_rows_longer_than_a_bucket(tmp_path, n_rows):
    """Each long row is a piece of its own."""
    lengths = [PIECE_WORDS // 2 - 2 + k % 3 for k in range(n_rows)]
    text = b"".join(b"%d " % k + b" ".join(b"%d:2" % j for j in range(n)) + b"\n" for k, n in enumerate(lengths))
    ingest([text], tmp_path / "data")
    rows, ids = stored_rows(tmp_path / "data")
    assert ids == list(range(n_rows))
    assert np.diff(rows.indptr)[np.argsort(rows.label)].tolist() == lengths
    assert sorted(rows.label.tolist()) == list(range(n_rows))


def test_compressed_input_counts_its_own_bytes(tmp_path):
    data = zstandard.ZstdCompressor().compress(b"1 1:1\n" * 1000)
    manifest = ingest([data], tmp_path / "data")
    assert (manifest.n_rows, manifest.input_bytes) == (1000, len(data))


GOOD = b"".join(b"%d %d:%d.5 %d:1\n" % (k % 2, k % 9 + 1, k, k % 9 + 20) for k in range(300_000))


# More bytes than all buckets hold: the first pieces are written long before the input's end.
LONG = b"".join(b"%d " % (k % 2) + b" ".join(b"%d:1.5" % j for j in range(k % 7, 2000)) + b"\n" for k in range(5000))


def test_very_many_labels_are_not_counted(tmp_path):
    """So many labels are targets of a regression, not classes."""
    text = b"".join(b"%g 1:1\n" % (k / 8 - 100) for k in range(10_001))
    manifest = ingest([text], tmp_path / "data")
    assert manifest.labels == {}
    assert manifest.label_range == (-100.0, 1150.0)
    assert read_manifest(tmp_path / "data") == manifest
    few = ingest([text[:500]], tmp_path / "few")
    assert len(few.labels) == few.n_rows
    assert few.label_range == (-100.0, max(few.labels))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", "no_rows"),
        (b"1 1:x\n", "bad_number"),
        (b"1 2:1 1:1\n", "index_order"),
        (GOOD + b"1 1:1 1:2\n", "index_duplicate"),
        (b"\x28\xb5\x2f\xfd junk", "compressed_corrupt"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_leaves_nothing(tmp_path, text, code):
    with refused(InputError, code) as caught:
        ingest([text], tmp_path / "data")
    assert caught.value.hint == HINTS[code]
    assert list(tmp_path.iterdir()) == []


def test_interrupted_input_leaves_nothing(tmp_path):
    def chunks():
        yield GOOD
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest(chunks(), tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


def test_failing_disk_is_reported_and_leaves_nothing(tmp_path, monkeypatch):
    """Another thread writes the pieces: ingest raises its exception."""

    def fail(_self, _rows, _first_row):
        raise OSError("disk full")

    monkeypatch.setattr(BlockWriter, "append", fail)
    with pytest.raises(OSError, match="disk full"):
        ingest([b"1 1:1\n"], tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


def test_existing_dataset_is_refused(tmp_path):
    first = ingest([b"1 1:1\n"], tmp_path / "data")
    with pytest.raises(FileExistsError):
        ingest([b"-1 2:1\n"], tmp_path / "data")
    assert read_manifest(tmp_path / "data") == first
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_second_ingest_into_the_name_leaves_the_first_alone(tmp_path):
    def chunks():
        with pytest.raises(FileExistsError):
            ingest([b"-1 2:1\n"], tmp_path / "data")
        yield b"1 1:1\n"

    ingest(chunks(), tmp_path / "data")
    assert read_manifest(tmp_path / "data").labels == {1.0: 1}


def test_its_pieces_can_be_read_while_it_runs(tmp_path):
    """The input goes on only when a reader has read its first pieces."""
    arriving = ArrivingDataset(staged_path(tmp_path / "data"), tmp_path / "data")
    pieces, early = [], []

    def follow():
        pieces.extend(arriving.piece(announced) for announced in arriving.new_pieces())

    def chunks():
        for start in range(0, len(LONG), 1 << 20):
            yield LONG[start : start + (1 << 20)]
            follow()
        early.append(len(pieces))

    ingest(chunks(), tmp_path / "data")
    follow()
    assert arriving.is_complete
    assert 0 < early[0] < len(pieces)
    rows, ids = stored_rows(tmp_path / "data")
    assert [row for piece in pieces for row in range(piece.first_row, piece.first_row + len(piece))] == ids
    assert_same_rows(joined([piece.rows for piece in pieces]), rows)


def run_command(directory, data: bytes, *options):
    command = [sys.executable, "-m", "streamsvm.reader.ingest.run", str(directory), *options]
    return subprocess.run(command, input=data, cwd=ROOT, capture_output=True)


def test_command(tmp_path):
    done = run_command(tmp_path / "data", b"1 0:1\n-1 1:1\n", "--index-base", "0")
    assert done.returncode == 0, done.stderr
    manifest = read_manifest(tmp_path / "data")
    assert json.loads(done.stdout) == {"rows": 2, "uid": manifest.uid}
    assert manifest.index_base == 0


def test_command_reports_a_bad_input(tmp_path):
    done = run_command(tmp_path / "data", b"1 1:1\n-1 1:1 x\n")
    assert done.returncode == 1
    problem = json.loads(done.stdout)["problem"]
    assert problem["at"]["line"] == 2
    assert problem["hint"]
    assert list(tmp_path.iterdir()) == []
