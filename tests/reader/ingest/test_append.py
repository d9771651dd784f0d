"""Adding rows and removing blocks leaves other rows as they were, and takes effect wholly or not at all."""

import errno
from pathlib import Path

import numpy as np
import pytest

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.append import (
    LastBlock,
    UnknownBlock,
    append_rows,
    appending_path,
    remove_block,
    remove_unlisted_blocks,
)
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.storage.blocks.dataset import Dataset, block_path
from streamsvm.storage.blocks.manifest import MANIFEST, read_manifest
from streamsvm.storage.errors import CorruptData
from streamsvm.storage.features.rows import read_statistics
from streamsvm.storage.rows.csr import LARGE_W
from tests.contracts.problems import joined
from tests.refusals import refused

FIRST = b"1 1:3 4:1\n-1 2:1\n1 1:1\n"
SECOND = b"-1 2:5 9:1\n1 3:0\n"


def append(directory: Path, text: bytes, **options):
    return append_rows([text], directory, InputOptions(**options), InputLimits(), threads=2)


def rows_by_id(directory: Path):
    """All rows by row id; the ids are 0 to n - 1."""
    dataset = Dataset(directory)
    pieces = [dataset.piece(at) for k in range(len(dataset.manifest.blocks)) for at in dataset.pieces(k)]
    pieces.sort(key=lambda piece: piece.first_row)
    ids = np.concatenate([np.arange(piece.first_row, piece.first_row + len(piece)) for piece in pieces])
    assert np.array_equal(ids, np.arange(dataset.manifest.n_rows))
    return joined([piece.rows for piece in pieces])


def check(directory: Path) -> None:
    """The manifest counts the rows that there are, and lists the files."""
    manifest, rows = read_manifest(directory), rows_by_id(directory)
    values, counts = np.unique(rows.label, return_counts=True)
    assert (manifest.n_rows, manifest.nnz) == (len(rows), rows.nnz)
    assert manifest.labels == dict(zip(values.tolist(), counts.tolist(), strict=True))
    assert {path.name for path in (directory / "blocks").iterdir()} == {
        block_path(directory, block.number).name for block in manifest.blocks
    }
    assert not appending_path(directory).exists()


def test_rows_are_added_behind_those_there_are(tmp_path):
    before = ingest([FIRST], tmp_path / "data")
    first = rows_by_id(tmp_path / "data")
    after = append(tmp_path / "data", SECOND)
    assert after == read_manifest(tmp_path / "data")
    rows = rows_by_id(tmp_path / "data")
    assert np.array_equal(rows.label[:3], first.label) and np.array_equal(rows.values[:4], first.values)
    assert sorted(rows.label[3:].tolist()) == [-1.0, 1.0]
    check(tmp_path / "data")
    assert after.uid != before.uid
    assert (after.n_features, after.longest_row, after.input_bytes) == (9, 2, len(FIRST + SECOND))
    assert after.Qii_spread == (0.0, 10.0 + 1.0 + 1.0 + 26.0, 26.0)
    assert after.counters["explicit_zeros"] == 1
    assert [block.number for block in after.blocks] == [0, 1]


def test_a_full_disk_after_the_rows_are_there_does_not_refuse_them(tmp_path, monkeypatch):
    """A job that needs statistics counts them anew if they are of fewer rows than the dataset has."""
    ingest([FIRST], tmp_path / "data")

    def write(*_):
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr("streamsvm.reader.ingest.append.write_statistics", write)
    assert append(tmp_path / "data", SECOND) == read_manifest(tmp_path / "data")
    check(tmp_path / "data")
    found, manifest = read_statistics(tmp_path / "data"), read_manifest(tmp_path / "data")
    assert found is not None and (found.n_rows, manifest.n_rows) == (3, 5)


def test_rows_come_in_any_format(tmp_path):
    ingest([FIRST], tmp_path / "data")
    assert append(tmp_path / "data", b"label,a,b\n1,0,7\n", format="csv").n_rows == 4
    assert rows_by_id(tmp_path / "data").indices[-1] == 2


def test_a_block_is_removed_and_the_others_stay_in_order(tmp_path):
    ingest([FIRST], tmp_path / "data")
    append(tmp_path / "data", SECOND)
    append(tmp_path / "data", b"1 5:1\n-1 6:1\n")
    rows = rows_by_id(tmp_path / "data")
    after = remove_block(tmp_path / "data", 1)
    left = rows_by_id(tmp_path / "data")
    keep = [0, 1, 2, 5, 6]
    assert np.array_equal(left.label, rows.label[keep])
    assert [block.number for block in after.blocks] == [0, 2]
    check(tmp_path / "data")
    assert (after.n_features, after.Qii_spread[1]) == (9, 14.0)
    # Further rows can be added: no block's number and no first row id is used twice.
    remove_block(tmp_path / "data", 2)
    assert [block.number for block in append(tmp_path / "data", SECOND).blocks] == [0, 3]
    check(tmp_path / "data")
    assert append(tmp_path / "data", SECOND).n_rows == 7
    remove_block(tmp_path / "data", 0)
    check(tmp_path / "data")


def test_many_blocks_with_rows_in_turn(tmp_path, monkeypatch):
    """The pieces of the block lie between those of others, whose rows move up."""
    monkeypatch.setattr("streamsvm.reader.ingest.shuffle.PIECE_WORDS", 256)
    text = b"".join(b"%d %d:1 %d:0.5\n" % (k % 2, k % 1000 + 1, k + 2000) for k in range(30_000))
    ingest([text], tmp_path / "data")
    assert len(Dataset(tmp_path / "data").pieces(40)) > 2
    for number in (3, 0, 40):
        before = rows_by_id(tmp_path / "data").indices[1::2]
        place = [block.number for block in read_manifest(tmp_path / "data").blocks].index(number)
        dataset = Dataset(tmp_path / "data")
        gone = np.concatenate([dataset.piece(at).rows.indices[1::2] for at in dataset.pieces(place)])
        remove_block(tmp_path / "data", number)
        after = rows_by_id(tmp_path / "data").indices[1::2]
        assert np.array_equal(after, before[~np.isin(before, gone)])
    check(tmp_path / "data")


def test_features_that_were_renumbered_keep_their_places(tmp_path):
    """New rows have old features, new features between the old numbers, and one beyond them."""
    wide = LARGE_W + 100
    text = b"".join(b"%d %d:1 %d:2\n" % (k % 2, k % 50 + 1, wide - k % 7) for k in range(500))
    before = ingest([text], tmp_path / "data")
    assert before.renumbered > 0
    more = b"1 3:5 77:6 %d:7 %d:8\n" % (wide, wide + 40)
    after = append(tmp_path / "data", more)
    assert after.n_features == wide + 40
    rows = rows_by_id(tmp_path / "data")
    w = np.zeros(after.width)
    w[rows.indices[-4:]] = rows.values[-4:]
    found = Dataset(tmp_path / "data").in_input_order(w)
    assert {int(f): found[f] for f in np.flatnonzero(found)} == {3: 5.0, 77: 6.0, wide: 7.0, wide + 40: 8.0}


def test_the_base_and_the_norm_are_the_datasets(tmp_path):
    ingest([b"1 0:3 1:4\n-1 2:1\n"], tmp_path / "data", InputOptions(normalize="row_l2"))
    after = append(tmp_path / "data", b"1 1:6 2:8\n", index_base=0)
    assert (after.index_base, after.Qii_spread[2]) == (0, pytest.approx(1))
    ingest([b"1 1:1\n-1 2:1\n"], tmp_path / "one")
    for directory, text, options, code in (
        ("data", b"1 1:1\n", {"index_base": 1}, "option_unused"),
        ("one", b"1 1:1\n", {"normalize": "row_l2"}, "option_unused"),
        ("one", b"1 0:1\n", {}, "index_zero"),
    ):
        with refused(InputError, code):
            append(tmp_path / directory, text, **options)


@pytest.mark.parametrize("text", [b"spam\n", b"", FIRST * 1000 + b"1 x\n"])
def test_bad_rows_change_nothing(tmp_path, text):
    before = ingest([FIRST], tmp_path / "data")
    with pytest.raises(InputError):
        append(tmp_path / "data", text)
    assert read_manifest(tmp_path / "data") == before
    check(tmp_path / "data")


def test_a_change_that_was_killed_before_its_end_is_none(tmp_path, monkeypatch):
    before = ingest([FIRST], tmp_path / "data")

    def die(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("streamsvm.reader.ingest.append.write_manifest", die)
    with pytest.raises(KeyboardInterrupt):
        append(tmp_path / "data", SECOND)
    assert (block_path(tmp_path / "data", 1)).exists()
    monkeypatch.undo()
    assert read_manifest(tmp_path / "data") == before
    # Files of the change that was cut short do no harm, and can be deleted.
    remove_unlisted_blocks(tmp_path / "data")
    check(tmp_path / "data")
    monkeypatch.setattr("streamsvm.reader.ingest.append.write_manifest", die)
    with pytest.raises(KeyboardInterrupt):
        append(tmp_path / "data", SECOND)
    monkeypatch.undo()
    append(tmp_path / "data", b"1 7:1\n")
    check(tmp_path / "data")


def test_blocks_that_cannot_be_removed(tmp_path):
    ingest([FIRST], tmp_path / "data")
    with pytest.raises(UnknownBlock):
        remove_block(tmp_path / "data", 1)
    with pytest.raises(LastBlock):
        remove_block(tmp_path / "data", 0)
    append(tmp_path / "data", SECOND)
    path = block_path(tmp_path / "data", 1)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(CorruptData, match="block 1"):
        remove_block(tmp_path / "data", 1)


def test_more_than_classes(tmp_path):
    text = b"".join(b"%d 1:1\n" % k for k in range(10_001))
    before = ingest([text], tmp_path / "data")
    assert before.labels == {}
    after = append(tmp_path / "data", b"-5 1:1\n")
    assert (after.labels, after.label_range) == ({}, (-5.0, 10_000.0))
    assert remove_block(tmp_path / "data", 1).labels == {}


def test_the_files_of_the_manifest_and_of_statistics_are_all_that_changes(tmp_path):
    ingest([FIRST], tmp_path / "data")
    old = {path: path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()}
    append(tmp_path / "data", SECOND)
    for path, content in old.items():
        assert (path.read_bytes() == content) == (path.name not in (MANIFEST, "statistics"))
