"""A block: the unit on disk. A file of pieces; a piece is a batch of rows whose columns are compressed as one frame.

    header | piece 0 | piece 1 | ... | index (one entry per piece)

Pieces are appended to all blocks while a dataset is imported, so that a row's block can be chosen at random with little
memory; header and index are written last. The manifest holds the checksum of each block's header, the header that of
the index, and the index those of the pieces: so a block that is damaged, exchanged, or from an older dataset is always
detected. Rows are numbered over the whole dataset, in the order in which pieces are appended to any block: so the id of
a piece's first row is known when the piece is written.
"""

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from streamsvm.storage.errors import CorruptData, UnknownVersion
from streamsvm.storage.files import codec
from streamsvm.storage.files.codec_kernel import differences, integrate
from streamsvm.storage.rows.csr import GROUP, INDEX, INDPTR, LABEL, VALUE, WEIGHT, Array, Rows, squared_norms

MAGIC = b"SSVMBLK\n"
VERSION = 4

HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("block", "<u4"),
        ("dataset", "S32"),
        ("rows", "<u8"),
        ("nnz", "<u8"),
        ("index_offset", "<u8"),
        ("pieces", "<u4"),
        ("index_checksum", "<u4"),
    ]
)

INDEX_ENTRY = np.dtype(
    [
        ("offset", "<u8"),
        ("first_row", "<u8"),
        ("rows", "<u4"),
        ("nnz", "<u4"),
        ("bytes", "<u4"),
        ("checksum", "<u4"),
        ("increasing", "<u4"),  # 1: indices increase inside a row, and are stored as differences
        ("layout", "<u4"),  # a sum of ONES, WEIGHTS, GROUPS
    ]
)

# Layout of a piece: ONES: all values are 1, and are not stored; WEIGHTS, GROUPS: the piece has this column.
ONES, WEIGHTS, GROUPS = 1, 2, 4

# The location of a piece in a dataset: the index of its block in manifest.blocks, and its entry in the block's index.
LOCATION = np.dtype([("block", "<u4"), *INDEX_ENTRY.descr])

LENGTH = np.dtype("<u4")
NORM = np.dtype("<f8")
_OPTIONAL: dict[str, np.dtype] = {"values": VALUE, "weight": WEIGHT, "group": GROUP}


@dataclass(frozen=True)
class BlockInfo:
    """The manifest's entry of a block: its size, and its number, which is the name of its file.

    checksum   checksum of the header, which contains that of the index, which contains those of the pieces
    """

    rows: int
    nnz: int
    bytes: int
    checksum: int
    number: int


@dataclass(frozen=True)
class Piece:
    """A decoded piece: its rows, their squared norms Qii (n_rows,) float64, and the id of the first row."""

    rows: Rows
    Qii: Array
    first_row: int

    def __len__(self) -> int:
        return len(self.rows)


class BlockWriter:
    """Appends pieces to a block file. It opens the file for each piece, so that thousands of blocks can be written.

    dataset      uid of the dataset; block: number of the block
    increasing   whether feature numbers increase within each row; they are then stored as differences
    """

    def __init__(self, path: Path, dataset: str, block: int, increasing: bool = True) -> None:
        self._path = path
        self._increasing = increasing
        self._dataset = dataset
        self._block = block
        self._entries: list[Array] = []
        self._offset = HEADER.itemsize
        path.write_bytes(bytes(HEADER.itemsize))

    def append(self, rows: Rows, first_row: int) -> Array:
        """Encode rows with the ids from `first_row` on as one piece, and write it; return its INDEX_ENTRY."""
        norms = np.empty(len(rows), NORM)
        squared_norms(rows.indptr, rows.values, norms)
        # If all values are 1, they need not be stored. Comparing norms first excludes most other data fast.
        ones = ONES * bool(np.array_equal(norms, np.diff(rows.indptr)) and np.all(rows.values == 1))
        layout = ones + WEIGHTS * (rows.weight is not None) + GROUPS * (rows.group is not None)
        data = _encode(rows, norms, self._increasing, layout)
        with self._path.open("ab") as file:
            file.write(data)
        counts = self._offset, first_row, len(rows), rows.nnz, len(data), zlib.crc32(data)
        entry = np.array((*counts, self._increasing, layout), INDEX_ENTRY)
        self._entries.append(entry)
        self._offset += len(data)
        return entry

    def finish(self) -> BlockInfo:
        """Write index and header; return the manifest's entry. The block is then complete, but not durable."""
        index = np.stack(self._entries)
        header = np.zeros((), HEADER)
        header["magic"], header["version"], header["block"] = MAGIC, VERSION, self._block
        header["dataset"] = self._dataset.encode()
        header["rows"], header["nnz"] = index["rows"].sum(), index["nnz"].sum()
        header["index_offset"], header["pieces"] = self._offset, len(index)
        header["index_checksum"] = zlib.crc32(index.tobytes())
        with self._path.open("r+b") as file:
            file.write(header.tobytes())
            file.seek(self._offset)
            file.write(index.tobytes())
        return BlockInfo(
            rows=int(header["rows"]),
            nnz=int(header["nnz"]),
            bytes=self._offset + index.nbytes,
            checksum=zlib.crc32(header.tobytes()),
            number=self._block,
        )


def read_index(file: BinaryIO, info: BlockInfo) -> Array:
    """Read the index of a block, (n_pieces,) INDEX_ENTRY. Raises CorruptData if it differs from what was written."""
    raw = file.read(HEADER.itemsize)
    header = np.frombuffer(raw, HEADER)[0] if len(raw) == HEADER.itemsize else None
    if header is None or header["magic"] != MAGIC:
        raise CorruptData("not a block file")
    if zlib.crc32(raw) != info.checksum:
        raise CorruptData("the header is not the one that the manifest names")
    if header["version"] != VERSION:
        raise UnknownVersion(f"block format {header['version']}, this program reads {VERSION}")
    file.seek(int(header["index_offset"]))
    index = file.read(int(header["pieces"]) * INDEX_ENTRY.itemsize)
    if zlib.crc32(index) != header["index_checksum"]:
        raise CorruptData("the index has a wrong checksum")
    return np.frombuffer(index, INDEX_ENTRY)


def decode_piece(data: memoryview | bytes, entry: Array) -> Piece:
    """Check and decode the bytes of a piece. Raises CorruptData.

    entry  where the piece lies, and its checksum: a record of dtype INDEX_ENTRY or LOCATION
    """
    if zlib.crc32(data) != entry["checksum"]:
        raise CorruptData(f"the piece of the rows from {entry['first_row']} on has a wrong checksum")
    rows, norms = _decode(data, entry)
    return Piece(rows, norms, int(entry["first_row"]))


def locations(block: int, index: Array) -> Array:
    """Return the LOCATIONs (n,) of the pieces with the INDEX_ENTRYs `index` (n,) in the block at index `block`."""
    out = np.empty(len(index), LOCATION)
    out["block"] = block
    for name in INDEX_ENTRY.names or ():
        out[name] = index[name]
    return out


def _encode(rows: Rows, norms: Array, increasing: bool, layout: int) -> bytes:
    indices = rows.indices
    if increasing:
        indices = np.empty(rows.nnz, INDEX)
        differences(rows.indices, rows.indptr, indices)
    label, length = rows.label.astype(LABEL, copy=False), np.diff(rows.indptr).astype(LENGTH)
    values = [] if layout & ONES else [rows.values]
    further = [column for column in (rows.weight, rows.group) if column is not None]
    return codec.encode([label, norms, length, indices, *values, *further])


def _decode(data: memoryview | bytes, entry: Array) -> tuple[Rows, Array]:
    n_rows, nnz, layout = int(entry["rows"]), int(entry["nnz"]), int(entry["layout"])
    shapes: list[tuple[np.dtype, int]] = [(LABEL, n_rows), (NORM, n_rows), (LENGTH, n_rows), (INDEX, nnz)]
    optional = {"values": not layout & ONES, "weight": layout & WEIGHTS, "group": layout & GROUPS}
    names = [name for name, is_stored in optional.items() if is_stored]
    shapes += [(_OPTIONAL[name], nnz if name == "values" else n_rows) for name in names]
    label, norms, length, indices, *columns = codec.decode(data, shapes)
    further = dict(zip(names, columns, strict=True))
    indptr = np.zeros(n_rows + 1, INDPTR)
    np.cumsum(length, out=indptr[1:])
    if indptr[-1] != nnz:
        raise CorruptData("the row lengths do not add up")
    if entry["increasing"]:
        integrate(indptr, indices)
    values = further.pop("values", None)
    return Rows(label, indptr, indices, np.ones(nnz, VALUE) if values is None else values, **further), norms
