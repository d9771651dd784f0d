"""What the reader process is told: the `reader` part of a run's `run.json`."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streamsvm.reader.certificate.folds import LeftOut
from streamsvm.storage.features.maps import FeatureMaps, read_maps
from streamsvm.storage.rows.cache_plan import CachePlan
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.row_runs import RUN
from streamsvm.storage.run.state import RUN_FILE
from streamsvm.trainer.problem.classes import Classes, axis_of
from streamsvm.trainer.problem.lanes import Group

_PAIR_BYTES, _MOST_PAIRS = 16, 32 << 20


def has_room_to_certify(width: int, lanes: int, threads: int) -> bool:
    """Whether so many threads may: without lanes each has a w of its own, and a sum of alpha, which may be large."""
    return lanes > 1 or _PAIR_BYTES * width * threads <= _MOST_PAIRS


@dataclass(frozen=True)
class ReaderSettings:
    """
    dataset               directory of the dataset
    staged                where it is being put together while it is read in, or None: it is complete
    positive              label of the rows with y = +1; all others have y = -1. Found out if it is being read in.
                          None: y is the label itself
    group                 the lanes that are trained side by side, or the classes of one; None: one
    has_weights           rows have weights, which the state is to hold: in a group of lanes, of several classes, and in
                          regression y does not tell them
    n_rows, width         lengths of the state's arrays: of alpha and w, or bounds on them while that is not known
    C_positive, C_negative  C_i of the rows with y = +1 and y = -1
    loss                  a key of `trainer.problem.objective.OBJECTIVES`
    epsilon               half the width of the tube in which a residual costs nothing, in regression
    cache                 how it is divided
    maps                  what rows become before they are trained on
    evicts                what leaves a full cache first: the rows with the highest "score", or "random" ones
    exact                 after a crash, go on from the very place of the checkpoint, with the cache as it was
    left_out              rows of a fold of a cross-validation, which have no part in training; None: there are none
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
    positive: float | None
    group: Group | Classes | None
    has_weights: bool
    n_rows: int
    width: int
    C_positive: float
    C_negative: float
    loss: str
    epsilon: float
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
    left_out: LeftOut | None
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
            "left_out": settings["left_out"] and LeftOut(**settings["left_out"]),
            "group": axis_of(settings["group"]),
            "part_rows": settings["part_rows"] and np.array(settings["part_rows"], RUN),
            "maps": read_maps(run, settings["maps"], settings["width"]),
        }
        return cls(**{**settings, **paths, **own})

    @property
    def is_part(self) -> bool:
        """The w of the rows' alpha is kept beside that of all."""
        return self.part_rows is not None

    @property
    def shares_certifying(self) -> bool:
        """Whether threads certify side by side, where features are made. Sums are rounded in the order they come in.

        Not where there is no room, see `has_room_to_certify`.
        """
        is_asked = self.threads > 1 and not self.exact and not self.has_kernel and len(self.maps.late) > 0
        return is_asked and has_room_to_certify(self.width, self.lanes, self.threads)

    @property
    def lanes_with_folds(self) -> tuple[int, ...]:
        """The places of those that leave rows out; the classes of one problem leave out the same."""
        if not isinstance(self.group, Group):
            columns = 1 if self.group is None else len(self.group.labels)
            return tuple(range(columns)) if self.left_out else ()
        return tuple(place for place, lane in enumerate(self.group.lanes) if lane.fold is not None)

    @property
    def lanes(self) -> int:
        """Of the axis of lanes, or classes; 1: there is none."""
        return self.group.width if self.group else 1
