"""A run in processes of this machine: a reader, a trainer, the files that both share, and how the processes end."""

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import TimeoutExpired

from streamsvm.service.errors import DIED, STALLED, ServiceError
from streamsvm.service.forks.fork_server import Forked, fork
from streamsvm.service.jobs.fields.features import fitted_maps
from streamsvm.service.jobs.lanes.runner import Run
from streamsvm.service.jobs.plan.forecast import planned_on
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.service.jobs.plan.run_file import run_file
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.features.maps import FeatureMaps, write_maps
from streamsvm.storage.run.checkpoint import Checkpoint, newest_checkpoint
from streamsvm.storage.run.failure import told as word_left
from streamsvm.storage.run.slowdowns import bits_of
from streamsvm.storage.run.state import FOLDS_FILE, KEPT_ARRAYS, RUN_FILE, State, create_state, silent_until
from streamsvm.trainer.problem.row_encoder import write_folds
from streamsvm.trainer.shared_state import SHOWN_OF_LANE, HandedBack

READER, TRAINER, SHARD_TRAINER = (
    "streamsvm.reader.stream.process",
    "streamsvm.trainer.process",
    "streamsvm.trainer.distributed.shard",
)
PROCESSES = {"reader": READER, "trainer": TRAINER}
_LOG_TAIL_BYTES = 2000
_POLL_SECONDS = 0.1
HAND_BACK_SECONDS = 8.0  # at most: a section takes two or three
_HEARTBEAT = "{}_heartbeat"


def prepare_run(
    directory: Path,
    plan: JobPlan,
    dataset: Path,
    checkpoints: Path | None = None,
    warm_up: Callable[[State], None] | None = None,
    fitted: FeatureMaps | None = None,
    is_on_disk: bool = False,
) -> Checkpoint | None:
    """Prepare a run directory: state files and run.json. `warm_up` may fill the state if there is no checkpoint.

    checkpoints  directory in which the run makes checkpoints
    fitted       feature maps to use; None: the plan's maps, fitted to the dataset here
    is_on_disk   the directory is on disk because memory had no room

    Returns the sound checkpoint from which the run goes on, None if there is none. Raises ServiceError
    `dataset_changed`.
    """
    directory.mkdir(parents=True)
    state = create_state(directory, plan.n_rows, plan.width, plan.follows, plan.tasks.width)
    checkpoint = newest_checkpoint(checkpoints) if checkpoints else None
    if checkpoint:
        _restore(state, checkpoint)
    elif warm_up:
        warm_up(state)
    state.control["slowdowns"] = bits_of({*planned_on(plan, dataset), *(("cache_on_disk",) if is_on_disk else ())})
    told = run_file(plan, dataset)
    if not plan.follows:
        fitted = fitted or fitted_maps(plan.maps, Dataset(dataset))
    maps = write_maps(directory, fitted or plan.maps)
    folds = directory / FOLDS_FILE if plan.is_stratified else None
    if folds:
        write_folds(folds, Dataset(dataset).labels(), plan.labels, plan.tasks.n_folds, plan.tasks.seed)
    for part in ("reader", "trainer"):
        told[part]["folds"] = folds and str(folds)
        told[part]["maps"] = maps
        told[part]["resume"] = str(checkpoint.path) if checkpoint else None
    told["trainer"]["checkpoints"] = told["reader"]["parts"] = checkpoints and str(checkpoints)
    (directory / RUN_FILE).write_text(json.dumps(told))
    return checkpoint


def _restore(state: State, checkpoint: Checkpoint) -> None:
    # The reader streams a pass by the w that was published at the start of the pass.
    published = "published" if checkpoint.about["pieces"] else "w"
    for name, kept_as in (*zip(KEPT_ARRAYS, KEPT_ARRAYS, strict=True), ("w", published)):
        array, kept = getattr(state, name), checkpoint[kept_as]
        if kept.shape != array.shape:
            raise ServiceError("dataset_changed", "rows came or went since the checkpoint", "Submit a job anew.")
        array[:] = kept
    for name, value in checkpoint.about["control"].items():
        state.control[name] = value
    if "lanes" in checkpoint.names:
        kept = checkpoint["lanes"]
        for name in kept.dtype.names or ():  # an earlier version stored fewer figures
            state.lanes[name] = kept[name]
    else:
        for name in SHOWN_OF_LANE:
            state.lanes[name] = state.control[name]


class ProcessRun(Run):
    """A run in processes: `start`, `poll` until it returns True; `close` at any time. Its log is beside the history.

    directory  run directory, made by `prepare_run`
    modules    name -> module of each process; "trainer" writes the reports, and ends last
    """

    pause_seconds = _POLL_SECONDS

    def __init__(
        self, directory: Path, job_dir: Path, stall_seconds: float, modules: Mapping[str, str] = PROCESSES
    ) -> None:
        super().__init__(directory, job_dir)
        self._modules = modules
        self._log = job_dir / "log"
        self._stall_seconds = stall_seconds
        self._children: dict[str, Forked] = {}
        self._started = time.monotonic()
        self.has_handed_back = False

    def start(self) -> None:
        """Start all processes, or none if one cannot start: OSError. The trainer's reports are added to the history."""
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        with self._history.open("ab") as history, self._log.open("ab") as log, Path(os.devnull).open("r+b") as nothing:
            for name, module in self._modules.items():
                output = history if name == "trainer" else nothing
                files = nothing.fileno(), output.fileno(), log.fileno()
                self._children[name] = fork([module, str(self.directory)], files)
        self._started = time.monotonic()

    def poll(self) -> bool:
        """Return whether all processes have ended well. Raises ServiceError if a process died or fell silent."""
        codes = {name: child.poll() for name, child in self._children.items()}
        if codes["trainer"] == HandedBack.exit_code:
            self.has_handed_back = True
            return False
        for name, code in codes.items():
            if code and (failure := word_left(self.directory, code)):
                raise self._failure(failure["code"], failure["message"], failure["hint"])
            if code:
                ended = f"signal {-code}" if code < 0 else f"exit code {code}"
                raise self._failure(DIED, f"the {name} process ended with {ended}")
            if code is None and self._silence(name) > self._stall_seconds:
                raise self._failure(STALLED, f"the {name} process fell silent")
        return all(code == 0 for code in codes.values())

    def wait(self, seconds: float) -> None:
        """Return after so many seconds, or once the trainer has ended."""
        with suppress(TimeoutExpired):
            self._children["trainer"].wait(seconds)

    def close(self) -> None:
        """Kill the run's processes and wait for their end."""
        children, self._children = self._children, {}
        with ExitStack() as ended:
            for child in children.values():
                ended.enter_context(child).kill()

    def hand_back(self) -> None:
        """Have the trainer make a checkpoint and end, if it can within seconds. Raises what `poll` raises."""
        deadline = time.monotonic() + HAND_BACK_SECONDS
        self.control["hand_back"] = 1  # it looks at that after the current section of its work
        while time.monotonic() < deadline:
            has_section = self.control["committed_step"] > 0 and not self.control["certificates_wanted"]
            if not has_section or self.poll() or self.has_handed_back:
                break
            time.sleep(_POLL_SECONDS)

    def _silence(self, name: str) -> float:
        heard = self._started, self.control[_HEARTBEAT.format(name)], silent_until(self.control, name)
        return time.monotonic() - max(heard)

    def _failure(self, code: str, message: str, hint: str = "Its log says more.") -> ServiceError:
        return ServiceError(code, message, hint, {"log_tail": log_tail(self._log)})


def log_tail(path: Path) -> str:
    """Return the end of a log, some 2000 bytes."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
        return file.read().decode(errors="replace")
