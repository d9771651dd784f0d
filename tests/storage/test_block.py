"""A block returns the rows that were written, or raises CorruptData."""

import io
import itertools
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.storage.blocks.block import (
    GROUPS,
    HEADER,
    INDEX_ENTRY,
    ONES,
    WEIGHTS,
    BlockInfo,
    BlockWriter,
    decode_piece,
    read_index,
)
from streamsvm.storage.errors import CorruptData, UnknownVersion
from streamsvm.storage.files import codec
from streamsvm.storage.rows.csr import Rows
from tests.contracts.problems import joined
from tests.storage.damage import bit_flips, scrambled, truncations
from tests.storage.rows import assert_same_rows, make_rows, random_rows

LARGEST = 2**31 - 1
UID = "0123456789abcdef" * 2


def write_block(path, pieces, first_row=0, block=0, uid=UID) -> BlockInfo:
    """Write the pieces, leaving out three row ids between any two, as if another block had them."""
    writer = BlockWriter(path, uid, block)
    for piece in pieces:
        writer.append(piece, first_row)
        first_row += len(piece) + 3
    return writer.finish()


def read_block(data: bytes, info: BlockInfo) -> list:
    index = read_index(io.BytesIO(data), info)
    return [decode_piece(data[int(each["offset"]) :][: int(each["bytes"])], each) for each in index]


def make_further(weight, group) -> Rows:
    """Three rows with further columns."""
    weight = None if weight is None else np.array(weight, float)
    return replace(
        make_rows([{1: 1.0}, {}, {2: 1.0, 3: 1.0}]), weight=weight, group=group and np.array(group, np.uint64)
    )


CASES = {
    "one row": make_rows([{3: 0.5}]),
    "one empty row": make_rows([{}]),
    "only empty rows": make_rows([{}] * 5),
    "empty rows first and last": make_rows([{}, {1: 2.0, 7: -3.0}, {}, {0: 1e-38}, {}]),
    "ones": make_rows([{1: 1.0, 5: 1.0}, {2: 1.0}]),
    "one value not one": make_rows([{1: 1.0, 5: 1.0}, {2: 1.0000001}]),
    "large indices": make_rows([{0: 1.5, LARGEST: -1.5}, {LARGEST - 1: 2.0, LARGEST: 3.0}, {65535: 1.0, 65536: 2.0}]),
    "odd numbers": make_rows([{1: 3.4028235e38, 2: 1e-45, 3: -0.0}, {}], [1e300, -0.0]),
    "many": random_rows(3000),
    "weights": replace(random_rows(5000), weight=np.random.default_rng(0).exponential(size=5000)),
    "odd weights": make_further([0.0, 1e-300, 3e38], None),
    "groups": make_further(None, [0, 2**64 - 1, 7]),
    "ones, weights and groups": make_further([1.0, 2.0, 0.5], [3, 3, 1]),
}


@pytest.mark.parametrize("rows", CASES.values(), ids=CASES.keys())
def test_round_trip_is_exact(tmp_path, rows):
    info = write_block(tmp_path / "b", [rows], first_row=17)
    data = (tmp_path / "b").read_bytes()
    (piece,) = read_block(data, info)
    assert_same_rows(piece.rows, rows)
    assert piece.first_row == 17
    assert (info.rows, info.nnz, info.bytes) == (len(rows), rows.nnz, len(data))
    norms = [float(np.sum(rows.values[a:b].astype(float) ** 2)) for a, b in itertools.pairwise(rows.indptr)]
    assert piece.Qii == pytest.approx(norms, rel=1e-12)


row_lists = st.lists(
    st.dictionaries(st.integers(0, LARGEST), st.floats(width=32, allow_nan=False), max_size=6), min_size=1, max_size=8
)


@settings(max_examples=60, deadline=None)
@given(pieces=st.lists(row_lists, min_size=1, max_size=4))
def test_round_trip_of_any_pieces(tmp_path_factory, pieces):
    path = tmp_path_factory.mktemp("block") / "b"
    written = [make_rows(piece) for piece in pieces]
    info = write_block(path, written, first_row=5)
    read_pieces = read_block(path.read_bytes(), info)
    for piece, rows in zip(read_pieces, written, strict=True):
        assert_same_rows(piece.rows, rows)
    starts = 5 + np.cumsum([0, *(len(rows) + 3 for rows in written[:-1])])
    assert [piece.first_row for piece in read_pieces] == starts.tolist()


def test_ones_take_no_room(tmp_path):
    indices = [dict.fromkeys(range(k, k + 50), 1.0) for k in range(200)]
    ones = write_block(tmp_path / "a", [make_rows(indices)])
    others = write_block(tmp_path / "b", [make_rows([dict.fromkeys(row, 1.5) for row in indices])])
    assert ones.bytes < others.bytes


@pytest.mark.parametrize("value", [1.0, 1.5])
def test_rows_without_weights_and_groups_have_the_old_format(tmp_path, value):
    rows = make_rows([{1: value, 5: value}, {}, {2: value}])
    info = write_block(tmp_path / "b", [rows])
    data = (tmp_path / "b").read_bytes()
    entry = read_index(io.BytesIO(data), info)[0]
    assert (INDEX_ENTRY.itemsize, int(entry["layout"])) == (40, int(value == 1))
    norms, lengths = np.array([2 * value**2, 0, value**2]), np.array([2, 0, 1], np.uint32)
    columns = [rows.label, norms, lengths, np.array([1, 4, 2], np.int32), *([rows.values] if value != 1 else [])]
    assert data[HEADER.itemsize : HEADER.itemsize + int(entry["bytes"])] == codec.encode(columns)


def test_pieces_of_a_block_say_which_columns_they_have(tmp_path):
    written = [make_further(None, None), make_further([1, 2, 3], None), make_further([1, 2, 3], [1, 2, 3])]
    info = write_block(tmp_path / "b", written)
    data = (tmp_path / "b").read_bytes()
    for piece, rows in zip(read_block(data, info), written, strict=True):
        assert_same_rows(piece.rows, rows)
    layouts = read_index(io.BytesIO(data), info)["layout"].tolist()
    assert layouts == [ONES, ONES + WEIGHTS, ONES + WEIGHTS + GROUPS]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """(bytes, info, rows) of a block of two small pieces, one of them binary."""
    path = tmp_path_factory.mktemp("block") / "b"
    pieces = [make_rows([{1: 0.5, 9: 2.0}, {}]), make_rows([{4: 1.0}])]
    info = write_block(path, pieces)
    return path.read_bytes(), info, joined(pieces)


def test_every_truncation_is_noticed(stored):
    data, info, _ = stored
    for damaged in truncations(data):
        with pytest.raises(CorruptData):
            read_block(damaged, info)


def test_every_flipped_bit_is_noticed(stored):
    data, info, _ = stored
    for damaged in bit_flips(data):
        with pytest.raises((CorruptData, UnknownVersion)):
            read_block(damaged, info)


def test_scrambled_bytes_are_noticed(tmp_path):
    info = write_block(tmp_path / "b", [random_rows(200, seed=k) for k in range(3)])
    for damaged in scrambled((tmp_path / "b").read_bytes(), 500):
        with pytest.raises((CorruptData, UnknownVersion)):
            read_block(damaged, info)


def test_a_forged_checksum_does_no_harm(stored, monkeypatch):
    """Damaged columns with a matching checksum raise CorruptData, or decode to rows of the stated number and size."""
    data, info, rows = stored
    monkeypatch.setattr(zlib, "crc32", lambda _data: 0)
    header = np.frombuffer(data, HEADER, 1).copy()
    columns = slice(HEADER.itemsize, int(header["index_offset"][0]))
    index = np.frombuffer(data[columns.stop :], INDEX_ENTRY).copy()
    header["index_checksum"], index["checksum"] = 0, 0
    info = BlockInfo(info.rows, info.nnz, info.bytes, 0, info.number)
    for damaged in bit_flips(data[columns]):
        try:
            read_pieces = read_block(header.tobytes() + damaged + index.tobytes(), info)
        except CorruptData:
            continue
        found_rows = joined([piece.rows for piece in read_pieces])
        assert (len(found_rows), found_rows.nnz) == (len(rows), rows.nnz)
        assert len(found_rows.indices) == len(found_rows.values) == rows.nnz


def test_unknown_version_says_so(stored):
    data, info, _ = stored
    header = np.frombuffer(data, HEADER, 1).copy()
    header["version"] = 1
    as_written = replace(info, checksum=zlib.crc32(header.tobytes()))
    with pytest.raises(UnknownVersion, match="1"):
        read_block(header.tobytes() + data[HEADER.itemsize :], as_written)


def test_a_block_of_another_number_or_dataset_is_noticed(tmp_path):
    rows = [make_rows([{1: 1.0}])]
    info = write_block(tmp_path / "a", rows)
    write_block(tmp_path / "b", rows, block=1)
    write_block(tmp_path / "c", rows, uid=UID[::-1])
    for other in ("b", "c"):
        with pytest.raises(CorruptData):
            read_block((tmp_path / other).read_bytes(), info)


def test_a_piece_takes_rows_of_read_only_arrays(tmp_path):
    rows = random_rows(20)
    for array in (rows.label, rows.indptr, rows.indices, rows.values):
        array.setflags(write=False)
    info = write_block(tmp_path / "b", [rows])
    (piece,) = read_block((tmp_path / "b").read_bytes(), info)
    assert_same_rows(piece.rows, Rows(rows.label, rows.indptr, rows.indices, rows.values))
