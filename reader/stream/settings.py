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
    """Whether so many threads may: without lanes each has a w of its own, and a sum of alpha, which may be large."""
    return lanes > 1 or _PAIR_BYTES * width * threads <= _MOST_PAIRS


@dataclass(frozen=True)
class ReaderSettings:
    """
    dataset               directory of the dataset
    staged                where it is being put together while it is read in, or None: it is complete
    tasks                 the problems that are trained
    has_weights           rows have weights
    n_rows, width         lengths of the state's arrays: of alpha and w, or bounds on them while that is not known
    cache                 how it is divided
    maps                  what rows become before they are trained on
    evicts                what leaves a full cache first: the rows with the highest "score", or "random" ones
    exact                 after a crash, go on from the very place of the checkpoint, with the cache as it was
    resume                the checkpoint to go on from, or None
    threads               that work at once, the trainer's main one included
    is_dual               the trainer makes w of alpha: at a checkpoint it is compared
    has_kernel            the trainer publishes support vectors of a Gaussian kernel, no w
    part_rows             the rows are a part of the problem's, see storage.run.rounds: runs of their ids among all, see
                          storage.rows.row_runs; None: they are all there are
    keeps_all             the trainer is to have all rows at hand after a pass, in the cache or on its own disk
    blocks                block minimization: in how many blocks the rows come, one at a time; else None
    kept_bytes            bytes of rows that stay in the cache, the best ones, when the next block comes

    Options of solvers that have them:

    screening             slack beyond which a row that rests at its bound is left out of a pass, or None
    permute_blocks        in another order in every pass
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
        """Whether the rows are a shard: the certificate then also adds up w of these rows alone."""
        return self.part_rows is not None

    @property
    def shares_certifying(self) -> bool:
        """Whether threads certify side by side, where features are made. Sums are rounded in the order they come in.

        Not where there is no room, see `has_room_to_certify`.
        """
        is_asked = self.threads > 1 and not self.exact and not self.has_kernel and len(self.maps.late) > 0
        return is_asked and has_room_to_certify(self.width, self.tasks.width, self.threads)
