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
    """Whether `threads` threads may certify at once: with a single task, each thread has a copy of w and of v."""
    return lanes > 1 or _PAIR_BYTES * width * threads <= _MOST_PAIRS


@dataclass(frozen=True)
class ReaderSettings:
    """
    dataset               directory of the dataset
    staged                directory where the dataset is being read in; None: it is complete
    tasks                 the tasks that are trained
    has_weights           whether rows have weights
    n_rows, width         lengths of the state's arrays alpha and w; upper bounds while the dataset is being read in
    maps                  the feature maps of the job
    cache                 sizes of the cache and of its segments
    evicts                which rows leave a full cache first: those with the highest "score", or "random" ones
    keeps_all             the trainer is to have all rows after the first pass, in the cache or on its own disk
    blocks                block minimization: number of blocks, which come one at a time; else None
    kept_bytes            bytes of rows, the best ones, that stay in the cache when the next block comes
    exact                 after a crash, go on from the checkpoint's place in the pass, with the same rows in the cache
    is_dual               w is sum_i alpha_i y_i x_i: the reader checks that when it resumes
    has_kernel            the trainer publishes support vectors of a Gaussian kernel, no w
    part_rows             for a shard: the ids that its rows have in the whole dataset, as runs (storage.rows.row_runs);
                          None: the dataset is whole
    threads               threads that may work at once, the trainer's main one included
    resume                the checkpoint to go on from, or None

    Options that only some solvers have:

    screening             rows held at their bounds by more than this do not enter the cache; None: all rows do
    permute_blocks        passes visit the blocks in different orders
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

    @classmethod
    def read(cls, run: Path) -> "ReaderSettings":
        """The settings in a run directory."""
        settings = json.loads((run / RUN_FILE).read_bytes())["reader"]
        paths = {name: settings[name] and Path(settings[name]) for name in ("dataset", "staged", "resume")}
        own = {
            "cache": CachePlan(**settings["cache"]),
            "tasks": Tasks.of(settings["tasks"]),
            "part_rows": settings["part_rows"] and np.array(settings["part_rows"], RUN),
            "maps": read_maps(run, settings["maps"], settings["width"]),
        }
        return cls(**{**settings, **paths, **own})

    @property
    def is_part(self) -> bool:
        """Whether the rows are a shard: then the reader also publishes the sum alpha_i y_i x_i of these rows alone."""
        return self.part_rows is not None

    @property
    def shares_certifying(self) -> bool:
        """Whether several threads certify, which pays where maps make features. The order of sums then varies.

        Only where there is room, see `has_room_to_certify`.
        """
        is_asked = self.threads > 1 and not self.exact and not self.has_kernel and len(self.maps.late) > 0
        return is_asked and has_room_to_certify(self.width, self.tasks.width, self.threads)
