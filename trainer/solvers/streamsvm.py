"""StreamSVM: dual coordinate updates on what the cache holds while a reader streams the data through it.

Matsushima, Vishwanathan, Smola, "Linear support vector machines via dual cached loops", KDD 2012, with a rule of
eviction that misses no row: every row is visited when it arrives, and rows by which training gains least leave first.

Where all rows are in the cache, or the disk with the dataset's blocks is quick, reader and trainer run side by side for
one pass. Then dual coordinate descent out of core follows, with shrinking and momentum: see trainer.sweeps.run.
"""

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from math import inf

import numpy as np

from streamsvm.storage.options import option
from streamsvm.storage.rows.cache import Step
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.newton.phase import NewtonPhase
from streamsvm.trainer.rows.cache import CachedRows, Cursor
from streamsvm.trainer.rows.disk import DiskRows, MakeDisk, RowStore, StoredRows
from streamsvm.trainer.rows.mixture import IsActive
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.solvers.options import StreamOptions
from streamsvm.trainer.sweeps.run import Shares, Sweeps
from streamsvm.trainer.sweeps.sweep import ResidentSweeps, is_worth_threads, shuffled, sweep, threads_for
from streamsvm.trainer.updates.convergence import StoppingTargets, has_enough_sweeps, is_late
from streamsvm.trainer.updates.progress import NewtonStep, PassProgress, Sweep
from streamsvm.trainer.updates.updater import make_variables

_STREAM, _SWEEPS = 2, 1  # numbers of streams of random numbers: other streams of the same seed are independent


@dataclass(frozen=True)
class StreamSvmOptions(StreamOptions):
    """Options of the solver streamsvm."""

    screening: float | None = option(
        0.1,
        "rows that rest at their bound by more than this slack do not enter the cache; null: all do",
        for_reader=True,
        ge=0,
    )
    spill: bool = option(
        True,
        "after the first pass, sweep over the dataset's blocks without the reader, and over active rows alone, in a "
        "file on the dataset's disk, of up to their decoded size, while free space is twice that; not on a slow disk "
        "(below 200 MB/s of decoded rows for seconds), with `pace` fixed, or if the cache has room for all",
    )


def streamsvm(
    settings: TrainerSettings,
    cursor: Cursor,
    alpha: Array,
    w: Array,
    make_disk: MakeDisk = DiskRows,
    shares: Shares = is_worth_threads,
) -> Generator[PassProgress, None, None]:
    """Train alpha (n_rows, width) and w (features, width) in place. Yields after every pass; never ends by itself."""
    with ExitStack() as stack:
        yield from StreamTraining(settings, cursor, alpha, w, make_disk, shares, stack).passes()


class StreamTraining:
    """The loop over the cache's steps, and the sweeps after a pass."""

    def __init__(
        self,
        settings: TrainerSettings,
        cursor: Cursor,
        alpha: Array,
        w: Array,
        make_disk: MakeDisk,
        shares: Shares,
        stack: ExitStack,
    ) -> None:
        self._settings = settings
        self._cursor = cursor
        self._shared = cursor.shared
        self._w = w
        kept = cursor.checkpoints.kept
        shared = cursor.shared
        parts = make_variables(
            settings, alpha, w, shared.note, kept, lambda: shared.scratch_w, lambda: shared.has_converged
        )
        self._variables, self.statistics, self._updater = parts
        # While rows stream, half of the cores decode them; where visits make features, decoding is little work.
        streaming = settings.threads if len(settings.maps.late) else settings.threads // 2
        self.threads, self._streaming = (threads_for(count, stack) for count in (settings.threads, streaming))
        self._residents = CachedRows(cursor, self.threads.lent)
        self._disk = make_disk(settings.spill_directory, self.threads.lent, partial(StoredRows.of, settings))
        stack.callback(self._disk.shutdown)
        self._shared.slow_down(self._disk.slowdowns)
        targets = StoppingTargets.of(settings)
        self._newton = NewtonPhase(settings, parts, cursor, self.threads, kept)
        self.sweeps = Sweeps(parts, cursor, targets, self.threads, kept, shares, self._newton.is_quicker)
        self._resident_sweeps = ResidentSweeps(
            self._residents.windows, self._shared.score, self._updater, self._streaming
        )
        # If training goes on from earlier lanes, a checkpoint or an alpha, rows on disk need not stream first.
        if not settings.follows and (settings.lane or settings.resume or alpha.any()):
            self._disk.seal(len(alpha))
        self._shared.control["collects"] = self._disk.is_open and not self._disk.is_sealed
        cursor.training = self
        # P of a pass is unknown if the pass streamed no rows, or if it began at another w than was published last.
        self._has_bound = False
        resumed = (self.statistics, self.sweeps, self._newton, cursor.model)
        cursor.checkpoints.keep(lambda: {name: each for part in resumed for name, each in part.resumable().items()})

    def passes(self) -> Generator[PassProgress, None, None]:
        section = None
        self._shared.enter("stream")
        rng = self._rng(0, 0)
        self._skipped = self._disk.is_sealed
        if self._skipped:
            self._cursor.next()
            yield from self._swept_passes(self._cursor.skip_pass(), np.array([inf]))
        while True:
            step = self._cursor.next()
            if (step.pass_, step.section) != section:
                section = step.pass_, step.section
                rng = self._rng(*section)
                self._resident_sweeps.begin_section()
            self._stream(step, rng)
            self._shared.end_if_due()
            if not step.ends_section:
                self._cursor.checkpoints.make_within(step, self._w)
            if step.ends_pass:
                yield from self._end_pass(step)
                self._variables.end()  # lanes may have been found to have converged
            if step.ends_section:
                self._cursor.end_section(self._w)
            self._use_spare_time(step, rng)

    @property
    def _makes_one_visit(self) -> bool:
        """Whether sweeps follow the first pass, and that is no time in which the trainer waits for a slow disk."""
        return self._disk.is_open and not self._shared.control["disk_is_slow"]

    def _rng(self, *place: int) -> np.random.Generator:
        """Return a generator seeded by job and section, so that a section can be repeated without earlier sections."""
        return np.random.default_rng((self._settings.seed, _STREAM, *place))

    def _stream(self, step: Step, rng: np.random.Generator) -> None:
        """Visit the fresh rows of a step, then resident rows, until the visits due for the step's rows are made."""
        self._residents.take_in(step)
        self.statistics.add_screened(step.screened)
        if not step.fresh and self._residents.has_all:
            return  # a sweep over all rows ends the pass
        self._has_bound = not self._skipped
        due = self._settings.options.updates_per_row
        # A second visit so soon after the first brings less than a sweep over all rows.
        due = min(1.0, due) if self._makes_one_visit else due
        order = rng.permutation(np.array(step.fresh, np.int64)).tolist()
        fresh = (self._cursor.read(segment_id) for segment_id in order)
        arrived = sweep(self._shared.going(fresh), shuffled(rng), self._updater, self._streaming)
        self.statistics.owed += due * step.rows - step.screened - arrived.visits
        while self.statistics.owed > 0 and self._residents.segments and not self._shared.has_to_end:
            self.statistics.owed -= self._resident_sweeps.visit_some(rng)

    def _use_spare_time(self, step: Step, rng: np.random.Generator) -> None:
        """Visit resident rows until the reader's next step is ready; not in a first pass whose cores have to read."""
        is_early = (self._settings.follows or self._makes_one_visit) and step.pass_ == 1
        adapts = self._settings.pace == "adaptive" and not is_early and self._residents.segments
        while adapts and not (self._cursor.is_next_ready or self._shared.has_to_end):
            self._resident_sweeps.visit_some(rng)

    def _end_pass(self, step: Step) -> Generator[PassProgress, None, None]:
        """Yield the progress of a pass. If disk or cache has all rows, sweep first, and go on without the reader."""
        self._disk.seal(step.n_rows)
        self._shared.slow_down(self._disk.slowdowns)
        self._shared.control["collects"] = 0
        primal = self._shared.primal(step) if self._has_bound else np.array([inf])
        self._has_bound = self._skipped = False
        if self.store() is None:
            # No row is left out of a pass: visit resident rows that this pass has not visited yet.
            rows = self._shared.going(map(self._cursor.read, self._residents.segments))
            sweep(rows, lambda rows: self._shared.unvisited(rows.row_id), self._updater)
            self._shared.end_if_due()
            yield self.statistics.finish_pass(step, self._shared.count_unvisited(step), primal)
        else:
            yield from self._swept_passes(step, primal)

    def _swept_passes(self, step: Step, primal: Array) -> Generator[PassProgress, None, None]:
        """Make passes of sweeps over all rows, and yield after each, until the store of all rows fails."""
        while (store := self.store()) is not None:
            sweeps, newton = self._train(store, step)
            self._shared.slow_down(self._disk.slowdowns)
            progress = self.statistics.finish_pass(step, self._shared.count_unvisited(step), primal)
            yield replace(progress, is_worth_a_look=True, sweeps=sweeps, newton=newton)
            primal = self.statistics.meet(self._shared.certified_primal)
            if store.is_open:
                step = self._cursor.repeat(self._w)
        self._shared.forget_visits()
        self._shared.enter("stream")

    def _train(self, store: RowStore, step: Step) -> tuple[tuple[Sweep, ...], tuple[NewtonStep, ...]]:
        """Sweep, then make Newton steps if these are quicker; if they have begun already, make only Newton steps."""
        sweeps: tuple[Sweep, ...] = ()
        if not self._newton.goes_on:
            self._shared.enter("sweep")
            self.sweeps.run(store, self._is_late, self._rng(step.pass_, 0, _SWEEPS))
            sweeps = tuple(self.sweeps.shown)
            if not self.sweeps.has_handed_on:
                return sweeps, ()
        self._shared.enter("newton")
        self._newton.run(store, lambda: is_late(self._shared.elapsed_seconds, self._settings.max_seconds))
        return sweeps, tuple(self._newton.shown)

    def store(self) -> RowStore | None:
        """Return the store that has all rows, the disk or the cache; None if neither has all."""
        if self._disk.is_sealed:
            return self._disk
        return self._residents if self._residents.take_in_all() else None

    def windows(self, is_active: IsActive, rng: np.random.Generator) -> Iterator[Segment]:
        """Windows of the rows at hand that are active."""
        return (self.store() or self._residents).windows(is_active, rng)

    def _is_late(self, sweeps: int) -> bool:
        """Whether so many sweeps are enough for a pass."""
        most = self._cursor.most_sweeps
        return sweeps >= most or has_enough_sweeps(sweeps, self._settings, self._shared.elapsed_seconds)
