"""The weights of a warm start after rows have gone: w is made of the alpha of the rows that are left."""

import time
from contextlib import closing

import numpy as np

from streamsvm.reader.stream.passes import Passes
from streamsvm.storage.rows.csr import add_rows
from streamsvm.storage.run.state import State
from streamsvm.trainer.problem.lane_kernel import add_in_lanes
from streamsvm.trainer.problem.objective import Objective


def make_w(passes: Passes, objective: Objective, state: State) -> None:
    """Fill w: sum_i alpha_i y_i x_i over all rows, in a pass before the first. The trainer has not begun."""
    alpha = state.alpha[: passes.n_rows]
    w = np.zeros((passes.width, *alpha.shape[1:]))  # private memory: see the trainer's
    add = add_rows if w.ndim == 1 else add_in_lanes
    with closing(passes.stream(0, lambda rows: None, is_alone=True)) as stream:
        for streamed in stream:
            for rows in passes.visited.all_batches(streamed.rows):
                coefficients = objective.coefficients(objective.targets(rows), alpha[rows.row_id])
                add(coefficients, rows.indptr, rows.indices, rows.values, w.reshape(-1))
            state.control["reader_heartbeat"] = time.monotonic()
    state.w[: passes.width] = w
