"""The reader process: streams a dataset's blocks into the cache. Only this process writes to the cache.

python -m streamsvm.reader.stream.process RUN_DIRECTORY
"""

import sys
import time
from pathlib import Path

import numpy as np

from streamsvm.reader.certificate.final_pass import CertificatePass
from streamsvm.reader.certificate.kept_values import HeldOut, LargestValues
from streamsvm.reader.stream.arrivals import Arrivals, ArrivalSource
from streamsvm.reader.stream.passes import Passes
from streamsvm.reader.stream.residents import BlockResidents, Eviction, Residents
from streamsvm.reader.stream.resume import ResidentCollector, WeightCheck, check_w_error, make_w
from streamsvm.reader.stream.screening import Screening
from streamsvm.reader.stream.settings import ReaderSettings
from streamsvm.storage.files.arrays import open_array
from streamsvm.storage.machine.child import die_with_parent, keep_freed_memory, leave
from streamsvm.storage.models.support_vectors import published_machine
from streamsvm.storage.rows.cache import CacheReader, CacheWriter, Step
from streamsvm.storage.rows.segment import Segment, SegmentBuilder
from streamsvm.storage.run.checkpoint import Checkpoint, open_checkpoint
from streamsvm.storage.run.failure import telling
from streamsvm.storage.run.state import (
    CACHE_FILE,
    OWN_W_FILE,
    REAL,
    StateRoom,
    backoff_sleep,
    open_state,
    telling_compiling,
)
from streamsvm.trainer.problem.objective import make_objective

_WAIT_SECONDS = 2e-3
# Fields of `Arrivals` that `Step` passes to the trainer.
_TOLD = "pass_", "section", "pieces", "rows", "screened", "screened_unvisited", "ends_section", "ends_pass"


class Reader:
    """The reader of a run. The constructor opens its files, `step` never waits, `shutdown` closes the files."""

    def __init__(self, run: Path) -> None:
        settings = ReaderSettings.read(run)
        self._state = open_state(run, settings.n_rows, settings.width, settings.tasks.width)
        self._passes = Passes(settings, self._wait, StateRoom(self._state).take)
        self._objective = make_objective(settings.tasks)
        places = settings.tasks.leaving_rows_out
        self._held_out = HeldOut(run, settings.n_rows, places) if places else None
        self._parts = LargestValues(settings.parts, settings.n_rows, settings.tasks) if settings.parts else None
        self._run, self._has_kernel = run, settings.has_kernel
        shape = settings.width, settings.tasks.width
        # The reader of a shard also publishes sum_i alpha_i y_i x_i over the shard's rows.
        self._own_w = open_array(run / OWN_W_FILE, REAL, shape, "r+") if settings.part_rows is not None else None
        self._shares_certifying = settings.shares_certifying
        self._plan = settings.cache
        self._cache = CacheWriter(run / CACHE_FILE, self._plan)
        self._by_block = by_block = settings.blocks is not None
        cache, state, seed = self._cache, self._state, settings.seed
        self._residents = (
            BlockResidents(cache, self._plan, state, settings.kept_bytes, seed)
            if by_block
            else Residents(cache, self._plan, state, settings.evicts, seed)
        )
        slack, spares_first = settings.screening, settings.keeps_all
        screening = Screening(self._objective, self._state, slack, spares_first, self._passes.visited)
        self._source = ArrivalSource(self._passes, self._plan, screening, self._residents, self._state, by_block)
        self._next_id, self._number = 1, 0  # id of the next segment; number of the last step
        self._arrivals: Arrivals | None = None
        if self._state.control["w_unmade"]:
            make_w(self._passes, self._objective, self._state, self._beat)
        if settings.resume is not None:
            self._resume(open_checkpoint(settings.resume), settings.exact, settings.is_dual)

    def _resume(self, checkpoint: Checkpoint, is_exact: bool, is_dual: bool) -> None:
        alpha = self._state.alpha[: self._passes.n_rows]
        check = WeightCheck(self._objective, alpha, checkpoint["w"], self._passes.visited) if is_dual else None
        if is_exact:
            self._fill_cache(ResidentCollector(checkpoint, self._passes.n_rows), check)
        self._source.resume(checkpoint, None if is_exact else check)

    def _fill_cache(self, resident: ResidentCollector, check: WeightCheck | None) -> None:
        """Read all rows once, to restore the cache of the checkpoint, and to check w, before training continues."""

        def add(rows: Segment) -> None:
            resident.add(rows)
            if check:
                check.add(rows)

        self._passes.visit_all(add, self._beat)
        if check:
            check.finish()
        builder = SegmentBuilder(self._plan.segment_bytes)
        for rows in resident.segments():
            left = np.arange(len(rows))
            while len(left):
                # A segment of an earlier version, whose rows had no weights, may hold more rows than fit now.
                count = builder.add(rows, left)
                added = self._with_ids([builder.take()])
                self._residents.admit(rows.row_id[left[:count]], added)
                self._cache.commit(self._step(Arrivals(1, 0)), added, [])
                left = left[count:]

    def cache_reader(self) -> CacheReader:  # for a trainer in the same process
        return self._cache.reader()

    def step(self) -> bool:
        """Do one action: make a certificate that the trainer wants, read the next step's rows, or commit these rows.

        Returns False if the reader has to wait for the trainer instead.
        """
        control = self._state.control
        self._beat()
        if control["certificates_wanted"] > control["certificates_made"]:
            self._certify()
            return True
        if self._arrivals is None:
            if not self._begins_section():
                return False
            self._arrivals = self._source.next_step()
            return True
        if self._waits_for_trainer():
            return False
        if self._commit(self._arrivals):
            self._arrivals = None
        return True

    def shutdown(self) -> None:
        self._source.close()
        self._passes.close()
        self._cache.close()

    def _waits_for_trainer(self) -> bool:
        """Whether the trainer must start the last step before the next commit: it has then scored the step before.

        In block minimization no commit waits, unless the job is ending: the trainer takes only the block's last step.
        """
        control = self._state.control
        return bool(control["started_step"] < self._number and (control["ending"] or not self._by_block))

    def _begins_section(self) -> bool:
        """Whether the next step may be read; a section begins only when the trainer has finished the last section.

        All of the next section depends only on the state at that moment, so a checkpoint made then is complete.
        """
        if not self._source.is_between_sections:
            return True
        if self._state.control["finished_section"] < self._number:
            return False
        self._residents.begin_section(self._source.place)
        return True

    def _commit(self, arrivals: Arrivals) -> bool:
        """Evict rows to make room for the arrivals, and commit them; return whether the arrivals were committed.

        If there was no room, the step brings no rows, and the trainer visits the resident rows before the next try.
        """
        eviction = self._residents.make_room(len(arrivals.fresh), arrivals.pass_)
        if eviction.makes_room:
            self._commit_step(arrivals, eviction)
            self._report(arrivals, len(eviction.evicted))
        else:
            self._commit_step(Arrivals(arrivals.pass_, arrivals.section, rows=self._residents.rows), eviction)
        self._state.control["committed_step"] = self._number
        if arrivals.ends_section and eviction.makes_room:
            self._state.control["committed_section"] = self._number
        return eviction.makes_room

    def _commit_step(self, arrivals: Arrivals, eviction: Eviction) -> None:
        repacked, fresh = self._with_ids(eviction.repacked), self._with_ids(arrivals.fresh)
        self._residents.advance(eviction.retired, repacked, fresh)
        self._number += 1
        self._cache.commit(self._step(arrivals), {**repacked, **fresh}, eviction.retired)

    def _step(self, arrivals: Arrivals) -> Step:
        return Step(
            number=self._number,
            n_rows=self._passes.n_rows,
            width=self._passes.width,
            **{name: getattr(arrivals, name) for name in _TOLD},
            pass_losses=tuple(arrivals.pass_losses.tolist()),
            fresh=self._residents.fresh,
            resident=self._residents.settled,
        )

    def _with_ids(self, segments: list[bytes]) -> dict[int, bytes]:
        first = self._next_id
        self._next_id += len(segments)
        return dict(enumerate(segments, first))

    def _report(self, arrivals: Arrivals, evicted: int) -> None:
        control = self._state.control
        control["pass"] = arrivals.pass_
        control["block"] = arrivals.blocks_begun
        control["rows_streamed"] += arrivals.rows
        control["rows_screened"] += arrivals.screened
        control["read_bytes"] = arrivals.read_bytes
        control["disk_is_slow"] = self._passes.is_slow
        control["resident_rows"] = self._residents.rows
        control["resident_bytes"] = self._residents.n_segments * self._plan.segment_bytes
        control["evicted_rows"] += evicted

    def _certify(self) -> None:
        state, passes = self._state, self._passes
        machine = published_machine(self._run) if self._has_kernel else None
        w, alpha = state.w[: passes.width], state.alpha[: passes.n_rows]
        told = self._held_out, machine, passes.visited, self._parts
        certificate_pass = CertificatePass(self._objective, w, alpha, *told)
        passes.visit_all(certificate_pass.add, self._beat, is_shared=self._shares_certifying)
        certificate = certificate_pass.result()
        if self._own_w is not None:
            self._own_w[: passes.width] = certificate_pass.w_of_alpha
        for name, value in vars(certificate).items():
            state.lanes[f"final_{name}"] = value
        state.lanes["final_training_score"] = certificate_pass.training.scores
        if state.control["w_unverified"]:
            # If the trainer has all rows, no pass has run since the checkpoint was opened, so w was not checked.
            check_w_error(float(np.max(certificate.w_error)), certificate_pass.relative_size)
            state.control["w_unverified"] = 0
        state.control["certificates_made"] += 1

    def _beat(self) -> None:
        self._state.control["reader_heartbeat"] = time.monotonic()

    def _wait(self) -> None:
        """Sleep for 2 ms, since the import has written no new piece of the dataset."""
        self._beat()
        time.sleep(_WAIT_SECONDS)

    @property
    def is_finished(self) -> bool:
        """Whether the trainer has ended training, so that the reader can stop."""
        return bool(self._state.control["training_done"])

    def note_wait(self, seconds: float) -> None:
        """Add the time in seconds that the reader has waited for the trainer to the control page."""
        self._state.control["reader_wait_seconds"] += seconds


def main(directory: str) -> None:
    """Run the reader of the run directory until training has ended."""
    die_with_parent()
    keep_freed_memory()
    run = Path(directory)
    with telling(run), telling_compiling(run, "reader"):
        reader = Reader(run)
        try:
            while not reader.is_finished:
                began = time.perf_counter()
                while not (reader.step() or reader.is_finished):
                    reader.note_wait(backoff_sleep(began))
        finally:
            reader.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
    leave()
