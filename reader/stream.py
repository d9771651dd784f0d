"""One pass over a dataset: its blocks in the pass's order, decoded into rows ready for training."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from reader.order import block_order, piece_order
from storage.block import Piece
from storage.csr import INDEX, VALUE
from storage.dataset import Dataset
from storage.segment import OFFSET, ROW_ID, SIGN, Segment


@dataclass(frozen=True)
class Streamed:
    """A piece of a pass: blocks begun so far, bytes read for it, its rows."""

    blocks_begun: int
    read_bytes: int
    rows: Segment


@dataclass(frozen=True)
class Examples:
    """How a dataset's rows become a training problem's.

    positive    label of the rows with y = +1
    bias        value of the constant feature, or None; it takes the place after the last feature
    """

    dataset: Dataset
    positive: float
    bias: float | None

    @property
    def width(self) -> int:
        """Length of w."""
        return self.dataset.manifest.width + (self.bias is not None)

    @property
    def longest_row(self) -> int:
        """Most non-zeros in a row."""
        return self.dataset.manifest.longest_row + (self.bias is not None)

    def stream(self, seed: int, pass_: int) -> Iterator[Streamed]:
        """The pieces of the pass."""
        blocks = block_order(len(self.dataset.manifest.blocks), seed, pass_).tolist()
        for begun, (block, following) in enumerate(zip(blocks, [*blocks[1:], None], strict=True), start=1):
            with self.dataset.open_block(block) as reader:
                if following is not None:
                    self.dataset.will_need(following)
                pieces = piece_order(len(reader), seed, pass_, block).tolist()
                for number, after in zip(pieces, [*pieces[1:], None], strict=True):
                    if after is not None:
                        reader.will_need(after)
                    yield Streamed(begun, reader.stored_bytes(number), self._ready(reader.piece(number)))

    def _ready(self, piece: Piece) -> Segment:
        rows = piece.rows
        examples = Segment(
            row_id=np.arange(piece.first_row, piece.first_row + len(piece), dtype=ROW_ID),
            y=np.where(rows.label == self.positive, 1, -1).astype(SIGN),
            Qii=piece.Qii,
            indptr=rows.indptr.astype(OFFSET),
            indices=rows.indices,
            values=rows.values,
        )
        return examples if self.bias is None else _with_constant(examples, self.width - 1, float(VALUE.type(self.bias)))


def _with_constant(examples: Segment, column: int, value: float) -> Segment:
    """The rows with one more feature at their end, the same for all."""
    n_rows = len(examples)
    ends = examples.indptr[1:]
    return Segment(
        row_id=examples.row_id,
        y=examples.y,
        Qii=examples.Qii + value * value,
        indptr=examples.indptr + np.arange(n_rows + 1, dtype=OFFSET),
        indices=np.insert(examples.indices, ends, INDEX.type(column)),
        values=np.insert(examples.values, ends, VALUE.type(value)),
    )
