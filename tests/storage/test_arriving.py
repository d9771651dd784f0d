"""An ArrivingDataset returns each piece of a staged dataset once, whole and in order."""

import shutil

import pytest

from streamsvm.storage.blocks.block import Piece
from streamsvm.storage.blocks.dataset import JOURNAL, RECORD, ArrivingDataset, Dataset, block_path, staged_path
from streamsvm.storage.errors import CorruptData, DatasetLost
from tests.storage.rows import assert_same_rows, random_rows
from tests.storage.staging import Staging

PIECES = [(0, random_rows(5, seed=0)), (1, random_rows(9, seed=1)), (0, random_rows(7, seed=2))]


@pytest.fixture
def staging(tmp_path):
    return Staging(tmp_path / "data")


@pytest.fixture
def arriving(tmp_path):
    follower = ArrivingDataset(staged_path(tmp_path / "data"), tmp_path / "data")
    yield follower
    follower.close()


def assert_pieces(pieces: list[Piece], expected=PIECES):
    assert len(pieces) == len(expected)
    first_row = 0
    for piece, (_, rows) in zip(pieces, expected, strict=True):
        assert_same_rows(piece.rows, rows)
        assert piece.first_row == first_row
        first_row += len(rows)


def test_each_piece_is_returned_once_it_is_written(staging, arriving):
    assert arriving.new_pieces() == []
    locations = []
    for block, rows in PIECES:
        staging.write(block, rows)
        (announced,) = arriving.new_pieces()
        locations.append(announced)
        assert arriving.new_pieces() == []
        assert_pieces([arriving.piece(announced) for announced in locations], PIECES[: len(locations)])
    assert not arriving.is_complete
    staging.publish()
    assert arriving.new_pieces() == []
    assert arriving.is_complete and not arriving.has_failed
    # The files have moved.
    assert_pieces([arriving.piece(announced) for announced in locations])
    assert Dataset(staging.final).manifest.n_rows == staging.rows
    assert sorted(path.name for path in staging.final.iterdir()) == ["blocks", "manifest.json"]


def test_pieces_announced_last_are_not_lost(staging, arriving):
    arriving.new_pieces()
    for block, rows in PIECES:
        staging.write(block, rows)
    staging.publish()
    locations = arriving.new_pieces()
    assert arriving.is_complete
    assert_pieces([arriving.piece(announced) for announced in locations])


def test_a_late_follower_gets_the_same_pieces(staging, arriving, tmp_path):
    for block, rows in PIECES:
        staging.write(block, rows)
    early = arriving.new_pieces()
    staging.publish()
    late = ArrivingDataset(staging.staged, staging.final)
    assert late.new_pieces() == early
    assert late.is_complete
    assert late.new_pieces() == []


def test_an_early_follower_waits(tmp_path, arriving):
    assert arriving.new_pieces() == []
    assert not arriving.is_complete and not arriving.has_failed
    staging = Staging(tmp_path / "data")
    staging.write(*PIECES[0])
    assert len(arriving.new_pieces()) == 1


def test_a_half_written_record_is_read_once_it_is_whole(staging, arriving):
    staging.write(*PIECES[0])
    staging.write(*PIECES[1])
    journal = staging.staged / JOURNAL
    data = journal.read_bytes()
    locations = []
    journal.write_bytes(b"")
    for byte in data:
        with journal.open("ab") as file:
            file.write(bytes([byte]))
        locations += arriving.new_pieces()
        assert len(locations) == journal.stat().st_size // RECORD.itemsize
    assert_pieces([arriving.piece(announced) for announced in locations], PIECES[:2])


def test_a_damaged_journal_is_noticed(staging, arriving):
    for block, rows in PIECES:
        staging.write(block, rows)
    journal = staging.staged / JOURNAL
    data = bytearray(journal.read_bytes())
    data[RECORD.itemsize + 9] ^= 1
    journal.write_bytes(data)
    assert len(arriving.new_pieces()) == 1
    staging.publish()
    with pytest.raises(CorruptData, match="journal"):
        arriving.new_pieces()


def test_a_damaged_piece_is_noticed(staging, arriving):
    staging.write(*PIECES[0])
    path = block_path(staging.staged, 0)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    (announced,) = arriving.new_pieces()
    with pytest.raises(CorruptData, match="checksum"):
        arriving.piece(announced)


def test_a_failed_ingest_is_noticed(staging, arriving):
    staging.write(*PIECES[0])
    (announced,) = arriving.new_pieces()
    assert not arriving.has_failed
    shutil.rmtree(staging.staged)
    assert arriving.has_failed
    assert arriving.new_pieces() == []
    assert not arriving.is_complete
    with pytest.raises(DatasetLost, match="missing"):
        arriving.piece(announced)
