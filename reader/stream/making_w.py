"""Computes w for a warm start after rows have gone: sum_i alpha_i y_i x_i over the rows that are still there."""

import time
from contextlib import closing

import numpy as np

from streamsvm.reader.stream.passes import Passes
from streamsvm.storage.run.state import State
from streamsvm.trainer.problem.objective import Objective, add_to_w


def make_w(passes: Passes, objective: Objective, state: State) -> None:
    """Fill w: sum_i alpha_i y_i x_i over all rows, in a pass before the first. The trainer has not begun."""
    alpha = state.alpha[: passes.n_rows]
    w = np.zeros((passes.width, alpha.shape[1]))  # private memory: see the trainer's
    with closing(passes.stream(0, lambda rows: None, is_alone=True)) as stream:
        for streamed in stream:
            for rows in passes.visited.all_batches(streamed.rows):
                terms = objective.tasks.terms(rows)
                add_to_w(rows, objective.coefficients(terms, alpha[rows.row_id]), w)
            state.control["reader_heartbeat"] = time.monotonic()
    state.w[: passes.width] = w
