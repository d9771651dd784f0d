"""What the benches of memory and of warm starts say of a run."""

import json

import pytest

from streamsvm.reader.ingest.append import append_rows
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.run.state import create_state
from tests.bench import small_memory, warm_start
from tests.bench.commands import Ended, launch
from tests.bench.usage import Spent
from tests.end_to_end.cgroup import MemoryGroup, reason_unusable

_HOARD = "print('begun', flush=True); hoard = bytearray(200 << 20); hoard[::4096] = bytes(len(hoard) // 4096)"


def ended(code: int, **certificate: float) -> Ended:
    result = {"result": {"converged": code == 0, "certificate": certificate}}
    return Ended(code, Spent(1.0), json.dumps(result).encode() if certificate else b"")


def test_outcomes_of_a_run_in_a_group():
    assert small_memory.outcome(ended(0, relative_duality_gap=5e-4), 0) == "certified to 5.0e-04"
    not_converged = ended(small_memory.NOT_CONVERGED, relative_duality_gap=5e-3)
    assert small_memory.outcome(not_converged, 0) == "ended at 5.0e-03"
    assert small_memory.outcome(ended(0), 0) == "trained"
    assert small_memory.outcome(ended(-9), 1) == "killed by the group"
    assert small_memory.outcome(ended(1), 0) == "failed with exit code 1"


def test_a_row_of_small_memory():
    attempt = small_memory.Attempt(Spent(2.5, 4.0), 100 << 20, "trained")
    assert small_memory.line("LIBLINEAR", 640 << 20, attempt) == "| LIBLINEAR | 640 | 2.5 | 4 | 100 | trained |"
    assert small_memory.line("LIBLINEAR", None, attempt).startswith("| LIBLINEAR | none |")


@pytest.mark.skipif(reason_unusable() is not None, reason=str(reason_unusable()))
@pytest.mark.parametrize(("limit", "words"), [(64 << 20, "killed by the group"), (400 << 20, None)])
def test_what_a_command_holds_is_charged_to_its_group(limit, words):
    group = MemoryGroup("bench", limit)
    try:
        done = launch(["python3", "-c", _HOARD], group=group.path)
        assert done.printed == b"begun\n"
        assert (small_memory.outcome(done, group.oom_kills) if done.code else None) == words
        assert group.peak > 0.9 * min(limit, 200 << 20)
    finally:
        group.remove()


def test_a_row_of_warm_starts():
    ways = [Spent(4.0, 6.0), Spent(2.0, 8.0), Spent(9.0, 1.0)], [Spent(1.0, 2.0), Spent(1.0, 2.0), Spent(3.0, 3.0)]
    cells = warm_start.line("a9a", "came", 1e-4, *ways).strip("| ").split(" | ")
    assert cells == ["a9a", "came", "1e-04", "4.00", "6.0", "1.00", "2.0", "0.25"]


def test_a_bench_of_warm_starts_begins_with_what_was_found(tmp_path):
    """On nine tenths of the rows; the others begin at 0."""
    lines = [f"{(-1) ** k} {k % 7 + 1}:1 {k % 31 + 8}:0.5\n" for k in range(3000)]
    (tmp_path / "text.svm").write_text("".join(lines))
    dataset = tmp_path / "dataset"
    ingest(warm_start.lines_of(tmp_path / "text.svm", 0, 2700), dataset)
    before = warm_start.job_before(dataset, tmp_path / "checkpoints", 1e-2)
    append_rows(warm_start.lines_of(tmp_path / "text.svm", 2700, 3000), dataset, InputOptions(), Limits(), 1)
    assert Dataset(dataset).manifest.n_rows == 3000
    state = create_state(tmp_path, 3000, Dataset(dataset).manifest.width)
    warm_start.take_over(state, dataset, before)
    assert state.alpha[:2700].any() and state.w.any() and not state.alpha[2700:].any()
    assert not state.control["w_unmade"]
