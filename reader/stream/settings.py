"""Settings of the reader process: the `reader` part of a run's `run.json`."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streamsvm.storage.features.maps import FeatureMaps, read_maps
from streamsvm.storage.rows.cache_plan import CachePlan
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.row_runs import RUN
from streamsvm.storage.run.state import RUN_FILE
from streamsvm.trainer.problem.tasks import Tasks

_PAIR_BYTES, _MOST_PAIRS = 16, 32 << 20


def has_room_to_certify(width: int, lanes: int, threads: int) -> bool:
    """Whether memory lets `threads` threads certify at once: with one lane, each thread has a copy of w and of v."""
    return lanes > 1 or _PAIR_BYTES * width * threads <= _MOST_PAIRS


@dataclass(frozen=True)
class ReaderSettings:
    """Settings of the reader for one run.

    dataset               directory of the dataset
    staged                directory in which the dataset is being imported; None: the dataset is complete
    tasks                 the tasks that are trained
    has_weights           whether rows have weights
    n_rows, width         lengths of the state's arrays alpha and w; upper bounds while the dataset is being imported
    maps                  the feature maps of the job
    cache                 sizes of the cache and of its segments
    evicts                rows that a full cache evicts first: those with the highest "score", or "random" ones
    keeps_all             the trainer needs all rows after the first pass, in the cache or in its own files on disk
    blocks                in block minimization, the number of blocks, which enter the cache one at a time; else None
    kept_bytes            bytes of the rows of lowest score that stay in the cache when the next block enters it
    exact                 after a crash, continue at the checkpoint's position in the pass, with its rows in the cache
    is_dual               w is sum_i alpha_i y_i x_i: the reader checks this equation when it resumes
    has_kernel            the trainer publishes support vectors of a Gaussian kernel in place of w
    part_rows             for a shard: the ids of its rows in the whole dataset, as runs (storage.rows.row_runs);
                          None: the dataset is whole
    threads               number of threads that may work at once, including the trainer's main thread
    resume                path of the checkpoint to continue from, or None
    screening             (some solvers) a row held at a bound by more than this is screened; None: no row is screened
    permute_blocks        (some solvers) passes visit the blocks in different orders
    parts                 directory for files of models of which the run trains some classes only, or None
    folds                 path of the file with the rows' folds; None: a hash deals rows to folds
    """

    dataset: Path
    staged: Path | None
    tasks: Tasks
    has_weights: bool
    n_rows: int
    width: int
    maps: FeatureMaps
    cache: CachePlan
    evicts: str
    keeps_all: bool
    blocks: int | None
    kept_bytes: int
    seed: int
    exact: bool
    is_dual: bool
    has_kernel: bool
    part_rows: Array | None
    threads: int
    resume: Path | None
    screening: float | None = None
    permute_blocks: bool = True
    parts: Path | None = None
    folds: str | None = None

    @classmethod
    def read(cls, run: Path) -> "ReaderSettings":
        """Read the settings from a run directory."""
        settings = json.loads((run / RUN_FILE).read_bytes())["reader"]
        names = ("dataset", "staged", "resume", "parts")
        paths = {name: Path(settings[name]) if settings.get(name) else None for name in names}
        own = {
            "cache": CachePlan(**settings["cache"]),
            "tasks": Tasks.of(settings["tasks"]),
            "part_rows": settings["part_rows"] and np.array(settings["part_rows"], RUN),
            "maps": read_maps(run, settings["maps"], settings["width"]),
        }
        return cls(**{**settings, **paths, **own})

    @property
    def shares_certifying(self) -> bool:
        """Whether several threads compute the certificate, which saves time if maps make features at each visit.

        The order of sums then varies. Requires memory, see `has_room_to_certify`.
        """
        is_asked = self.threads > 1 and not self.exact and not self.has_kernel and len(self.maps.late) > 0
        return is_asked and has_room_to_certify(self.width, self.tasks.width, self.threads)
