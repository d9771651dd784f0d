"""What a solver gets block by block: all rows of a pass, and of earlier blocks those worth keeping."""

import json
from itertools import islice

import numpy as np
import pytest

from streamsvm.storage.rows.segment import row_bytes
from streamsvm.trainer.rows.blocks import Blocks
from tests.contracts.problems import a_dataset, make_dataset, random_problem
from tests.contracts.solver import SMALLEST_CACHE, solving
from tests.training import train

dataset = a_dataset(500)


def blocks_of(monkeypatch):
    """Of every block that is given out: pass, ids fresh and kept, bytes kept, scores of all rows before it came."""
    found = []
    real_next = Blocks.next

    def next_(self, w):
        block = real_next(self, w)
        fresh, kept = (np.concatenate([np.empty(0, int), *(rows.row_id for rows in part)]) for part in
                       (block.fresh, block.kept))  # fmt: skip
        size = sum(int(row_bytes(np.diff(rows.indptr)).sum()) for rows in block.kept)
        found.append((block.step.pass_, fresh, kept, size, self._cursor.shared.score.copy()))
        return block

    monkeypatch.setattr(Blocks, "next", next_)
    return found


def test_plain_blocks_bring_every_row_once_a_pass_and_keep_none(tmp_path, dataset, monkeypatch):
    found = blocks_of(monkeypatch)
    with solving(tmp_path / "run", dataset, solver="bm", n_blocks=7) as session:
        list(islice(session.passes, 4))
    for pass_ in (1, 2, 3, 4):
        fresh = [rows for number, rows, *_ in found if number == pass_]
        assert len(fresh) == 7
        assert sorted(np.concatenate(fresh).tolist()) == list(range(500))
    assert not any(len(kept) for _, _, kept, *_ in found)


@pytest.mark.parametrize("select", ["distance", "violation", "gap"])
@pytest.mark.parametrize("share", [0.4, 0.6])
def test_selected_rows_stay_and_none_is_twice_in_the_cache(tmp_path, monkeypatch, select, share):
    dataset = make_dataset(tmp_path / "data", *random_problem(1000))
    found = blocks_of(monkeypatch)
    settings = {"solver": "sbm", "select": select, "cache_share": share, "cache_bytes": 2 * SMALLEST_CACHE}
    with solving(tmp_path / "run", dataset, **settings) as session:
        list(islice(session.passes, 4))
    room = json.loads((tmp_path / "run" / "run.json").read_text())["reader"]["kept_bytes"]
    seen, last = set(), np.empty(0, int)
    for pass_, fresh, kept, size, score in found:
        assert len(np.unique([*fresh, *kept])) == len(fresh) + len(kept)
        assert set(kept) <= set(last.tolist())
        assert size <= room
        gone = np.setdiff1d(last, [*kept, *fresh])
        if len(kept) and len(gone):
            # Filled up, and with the best: a row may only have been left out for its size.
            assert size > room - row_bytes(np.array([60]))[0]
            assert np.quantile(score[kept], 0.95) <= score[gone].min()
        last = np.concatenate([fresh, kept])
        seen |= {(pass_, row) for row in last.tolist()}
    assert len(seen) == 4 * 1000
    assert max(len(kept) for _, _, kept, *_ in found) > 100


@pytest.mark.parametrize("solver", ["bm", "sbm", "dcd"])
def test_data_that_fit_are_read_once(tmp_path, dataset, solver):
    found = train(tmp_path / "run", dataset, 1 << 20, solver=solver, tolerance=1e-5, max_passes=2000)
    assert found.result["stop_reason"] == "tolerance"
    assert found.passes[-1]["rows_streamed"] == 500
    assert found.passes[-1]["rows_unvisited"] == 0


def test_a_run_ends_after_a_look_at_every_row_only(tmp_path, dataset):
    """Shrunk rows are not looked at: the last pass is the re-check."""
    found = train(tmp_path / "run", dataset, 1 << 20, solver="dcd", tolerance=1e-4, max_passes=2000)
    shrunk = [one["rows_unvisited"] for one in found.passes]
    assert max(shrunk) > 100
    assert shrunk[-1] == 0
    assert found.result["certificate"]["gap"] <= 1e-4
    active = [500 - rows for rows in shrunk]
    assert found.passes[-1]["updates"] == sum(active)
