"""The first pass over a dataset that is still being read in: its pieces as they are written."""

from collections.abc import Iterator

from streamsvm.reader.stream.pieces import RowEncoder
from streamsvm.storage.blocks.arriving import ArrivingDataset
from streamsvm.storage.errors import DatasetLost
from streamsvm.storage.rows.csr import Array


class Following:
    """A `Source` of one pass. It finds out by itself which label is the positive one: the larger of the two."""

    def __init__(self, arriving: ArrivingDataset, encoder: RowEncoder) -> None:
        self._arriving = arriving
        self._encoder = encoder
        self._labels: set[float] = set()
        self.fetch, self.decode = arriving.fetch, arriving.decode

    def order(self, _seed: int, _pass: int, _skipped: int = 0) -> Iterator[tuple[int, Array] | None]:
        blocks: set[int] = set()
        held: list[Array] = []
        while not self._arriving.is_complete:
            held += self._new_pieces()
            if len(self._labels) > 1 or self._arriving.is_complete:
                self._encoder.labels = (max(self._labels, default=0.0),)
                for location in held:
                    blocks.add(int(location["block"]))
                    yield len(blocks), location
                held = []
            if not self._arriving.is_complete:
                yield None

    def _new_pieces(self) -> list[Array]:
        found = self._arriving.new_pieces()
        if not found and self._arriving.has_failed:
            raise DatasetLost("the dataset was given up while it was being read in")
        for location in found:
            if len(self._labels) < 2:
                self._labels.update(self._arriving.piece(location).rows.label.tolist())
        return found
