"""Streams pass after pass over one dataset. The first pass may begin while the dataset is still being imported."""

from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

from streamsvm.reader.stream.piece_sources import Following, Partitioned, PieceSource, Shuffled, Stream, Streamer
from streamsvm.reader.stream.settings import ReaderSettings
from streamsvm.storage.blocks.dataset import ArrivingDataset, Dataset
from streamsvm.storage.errors import FeaturesMissing, StorageError
from streamsvm.storage.features.visits import Visited
from streamsvm.storage.machine.resources import PageBudget
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.row_encoder import RowEncoder

T = TypeVar("T")


class Passes:
    """The passes of a run over its dataset.

    n_rows, width  numbers of rows and features; while the dataset is being imported, of the rows read so far
    visited        the feature maps that are applied to rows at each visit
    take_room      a function that is called with n_rows and width before rows are used
    """

    def __init__(
        self, settings: ReaderSettings, wait: Callable[[], object], take_room: Callable[[int, int], object]
    ) -> None:
        self._take_room = take_room
        self._settings = settings
        makes_dense = not (settings.has_kernel or len(settings.maps.late))
        self._encoder = RowEncoder.of_tasks(
            settings.tasks, settings.has_weights, settings.maps.early, settings.part_rows, makes_dense, settings.folds
        )
        self._wait, self._streamer = wait, Streamer(self._encoder, wait)
        self._source: PieceSource | None = None
        self._arriving = None
        self.n_rows = self.width = 0
        self.visited = Visited(settings.maps.late)
        if settings.staged is None:
            self._open()
            self._take_room(self.n_rows, self.width)
        else:
            # With `keeps_all`, the trainer may sweep over the blocks, and then reads them again soon.
            budget = PageBudget() if settings.keeps_all else None
            self._arriving = ArrivingDataset(settings.staged, settings.dataset, budget)

    def stream(self, pass_: int, look: Callable[[Segment], T], skipped: int = 0, is_alone: bool = False) -> Stream[T]:
        """Yield the pieces of a pass after the first `skipped`, see `Streamer.stream`. Pass 0 is the certificate's.

        All threads of the settings but the trainer's decode ahead; `is_alone`: all of them, since the trainer waits.
        On two cores a decoding thread still saves time: it works while this thread waits for the disk.
        """
        threads = self._settings.threads - (0 if is_alone else 1)
        if self._arriving is not None:
            yield from self._follow(self._arriving, pass_, look)
            self._arriving = None
            self._open()
            self._take_room(self.n_rows, self.width)
        else:
            assert self._source is not None
            yield from self._streamer.stream(self._source, self._settings.seed, pass_, look, threads, skipped)

    def visit_all(self, use: Callable[[Segment], object], beat: Callable[[], object], is_shared: bool = False) -> None:
        """Call `use` with the rows of each piece once, and `beat` after each piece, while the trainer waits.

        is_shared  decoding threads call `use`, in any order; False: this thread calls it, in the order of the pass
        """
        with closing(self.stream(0, use if is_shared else lambda rows: None, is_alone=True)) as stream:
            for streamed in stream:
                if not is_shared:
                    use(streamed.rows)
                beat()

    @property
    def is_slow(self) -> bool:
        """Whether rows come from the disk so late that training is to use the time meanwhile."""
        return self._streamer.health.is_too_slow

    def close(self) -> None:
        """Close the journal of a dataset that is being imported; a complete dataset has no open file."""
        if self._arriving is not None:
            self._arriving.close()

    def _follow(self, arriving: ArrivingDataset, pass_: int, look: Callable[[Segment], T]) -> Stream[T]:
        source = Following(arriving, self._encoder)

        def look_at_new(rows: Segment) -> T:
            self._count(rows)
            return look(rows)

        # A Streamer of its own: pieces that come late beside the writing of others say nothing of the disk. It uses no
        # threads, so that `_count` sees rows in the order of their ids.
        streamer = Streamer(self._encoder, self._wait)
        yield from streamer.stream(source, self._settings.seed, pass_, look_at_new, threads=0)

    def _count(self, rows: Segment) -> None:
        if rows.indices.min(initial=0) < 0:
            raise FeaturesMissing("rows are strings: they have no features", 'Ask for "features": ["weighted_degree"].')
        self.n_rows = int(rows.row_id[-1]) + 1
        self.width = max(self.width, rows.width)
        if self.n_rows > self._settings.n_rows or self.width > self._settings.width:
            raise StorageError("more rows or features come than there is room for in the state")
        self._take_room(self.n_rows, self.width)

    def _open(self) -> None:
        dataset = Dataset(self._settings.dataset)
        settings = self._settings
        if settings.blocks is None:
            self._source = Shuffled(dataset)
        else:
            source = Partitioned(dataset, settings.blocks, settings.permute_blocks, settings.maps.early, settings.seed)
            self._source = source
        self.n_rows = dataset.manifest.n_rows
        # The width was not known before the dataset was complete. The maps of a job that follows it add to the width.
        is_planned = len(settings.maps) and settings.staged is None
        added = settings.maps.width - settings.maps.shape.width
        self.width = settings.maps.width if is_planned else dataset.manifest.width + added
