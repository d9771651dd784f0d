"""What a running job shows, from its control page and its history, and what views make of it."""

import json
import shutil
from itertools import zip_longest
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.lanes.continuing import keep_history
from streamsvm.service.jobs.progress import progress as progress_module
from streamsvm.service.jobs.progress.progress import HISTORY, History, job_view, last_passes, progress, read_history
from streamsvm.service.jobs.progress.states import STALLED, gap_of
from streamsvm.service.jobs.progress.time_left import eta_seconds, lanes_done
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.manifest import Manifest, read_manifest
from streamsvm.storage.run.figures import FIGURES
from streamsvm.storage.run.state import CONTROL, SOLVER_PHASES, create_state
from streamsvm.trainer.updates import convergence
from tests.contracts.problems import make_dataset, random_problem, smallest_cache
from tests.training import write_run

RECORD = {
    "id": "job_A", "dataset_id": "one", "state": "running", "attempt": 1, "transitions": [], "result": None,
    **dict.fromkeys(("created_at", "started_at", "finished_at", "progress", "failure", "model_id", "requested")),
    "continues": None,
}  # fmt: skip
MANIFEST = Manifest("u", 1, 5, 100, 500, {-1.0: 50, 1.0: 50}, 5, 1000, {}, (None,) * 3)


LANE = {"number": 0, "count": 1, "of": 1, "class": 1.0, "C": 1.0}


def spec(**fields):
    return parse_spec({"dataset": "d", **fields})


def passes(*gaps: float, seconds: float = 10.0, bounds: tuple[float, ...] = ()) -> list[dict]:
    each = zip_longest(gaps, bounds)
    return [
        {"pass": k, "gap": gap, "relative_gap_bound": bound, "elapsed_seconds": k * seconds}
        for k, (gap, bound) in enumerate(each, start=1)
    ]


def left(history, limits=None, lane=LANE, **page):
    """The seconds left after these passes, or after what the control page says."""
    elapsed = history[-1]["elapsed_seconds"] if history else 0.0
    zero = dict.fromkeys((name for name, _, _ in CONTROL), 0.0)
    values = {**zero, "finished_passes": len(history), "elapsed_seconds": elapsed, **page}
    return eta_seconds(values, lane, limits or spec(), history)


def shown_of(tmp_path, **values) -> dict:
    """What is shown of a control page with these values."""
    control = create_state(tmp_path, 100, 6).control
    for name, value in values.items():
        control[name] = value
    found = progress(control, LANE, spec(), len(MANIFEST.blocks), [])
    json.dumps(found, allow_nan=False)
    return found


def test_progress_has_every_figure_that_is_declared(tmp_path):
    found = progress(create_state(tmp_path, 60, 41).control, LANE, spec(), 3, [])
    assert {figure.name for figure in FIGURES.values() if figure.group != "waits"} <= found.keys()
    counters = {figure.name for figure in FIGURES.values() if figure.metric == "counter"}
    assert {name: found[name] for name in counters} == dict.fromkeys(counters, 0)


@pytest.mark.parametrize(("C", "score"), [(0.0, None), (2.0, 0.0), (2.0, -0.5)])
def test_a_score_is_known_once_a_value_of_C_is_judged(tmp_path, C, score):
    shown = shown_of(tmp_path, best_C=C, best_score=score or 0.0)
    assert (shown["best_C"], shown["best_score"]) == (C or None, score)


@pytest.mark.parametrize(
    ("gaps", "limits", "seconds"),
    [
        ((), {}, None),
        ((1.0,), {}, None),  # two passes tell a rate
        ((1.0, 0.1), {"tolerance": 1e-3}, 20),  # as many passes as digits
        ((1e4, 1e3, 1e2, 10.0, 1.0), {"tolerance": 1e-3}, 30),
        ((1.0, 0.999), {"max_passes": 5}, 30),  # never more passes than are left
        ((1.0, 0.1), {"tolerance": 1e-9, "max_passes": 2}, 0),
        ((1.0, 1e-9), {"tolerance": None, "max_passes": 4}, 20),
        ((1.0, 0.999), {"tolerance": 1e-3, "max_seconds": 45}, 25),  # nor longer than it may take
        ((1.0, 0.1), {"tolerance": 1e-3, "C": "auto"}, None),  # a search: nobody knows
    ],
)
def test_the_seconds_left_follow_from_the_rate_and_the_limits(gaps, limits, seconds):
    assert left(passes(*gaps), spec(**limits)) == (seconds if seconds is None else pytest.approx(seconds))


def test_a_job_that_has_to_reach_both_takes_as_long_as_the_farther_one():
    done = passes(1.0, 0.1, bounds=(1e-1, 1e-3))
    assert left(done, spec(relative_gap=1e-5)) == pytest.approx(10)
    assert left(done, spec(tolerance=1e-3, relative_gap=1e-5)) == pytest.approx(20)
    assert left(done, spec(tolerance=1e-2, relative_gap=1e-9)) == pytest.approx(30)
    assert left(passes(1.0, 0.1), spec(tolerance=1e-3, relative_gap=1e-5)) == pytest.approx(980)


@pytest.mark.parametrize("gaps", [(1.0, 1.0), (1.0, 2.0), (0.0, 0.0), (float("inf"), 1.0)])
def test_a_gap_that_does_not_fall_leaves_the_bound(gaps):
    seconds = left(passes(*gaps), spec(max_passes=10))
    assert 0 <= seconds <= 80


def test_nothing_of_a_pass_is_shown_before_one_is_finished(tmp_path):
    shown = shown_of(tmp_path, **{"pass": 1, "block": 2, "rows_streamed": 40})
    assert (shown["pass"], shown["block"], shown["blocks"], shown["rows_streamed"]) == (1, 2, 3, 40)
    unknown = ("gap", "m_plus", "m_minus", "dual_objective", "primal_bound", "relative_gap_bound", "eta_seconds")
    assert {shown[name] for name in unknown} == {None}


def test_lanes_to_come_are_taken_to_last_as_long_as_the_others():
    history = passes(1.0, 0.1)  # 20 s, and as many left
    limits = spec(tolerance=1e-3)
    assert left(history, limits, {**LANE, "of": 3}) == pytest.approx(20 + 2 * 40)
    side_by_side = {**LANE, "count": 3, "of": 4}
    assert left(history, limits, side_by_side) == pytest.approx(20 + 40 / 3)
    later = [{**each, "lane": 2, "elapsed_seconds": 60 + each["elapsed_seconds"]} for each in history]
    third = {**LANE, "number": 2, "of": 3, "seconds_before": 60.0}
    assert left(later, limits, third) == pytest.approx(20)
    # A pass of other lanes says nothing of these, but how long they took.
    begun = {**third, "of": 4}
    assert left(later[:0], limits, begun, elapsed_seconds=70.0) == pytest.approx(20 + 30)
    assert left(history, limits, {**LANE, "number": 1, "of": 2, "seconds_before": 20.0}, elapsed_seconds=25.0) == 15


def test_sweeps_say_themselves_how_long_they_take():
    page = {"solver_phase": 1 + SOLVER_PHASES.index("sweep"), "sweeps": 3, "elapsed_seconds": 5.0}
    assert left([], **page, seconds_left=7.0) == 7.0
    assert left([], lane={**LANE, "of": 2}, **page, seconds_left=7.0) == 7.0 + 12.0
    assert left([], **page, seconds_left=inf) is None
    assert left([], **page, seconds_left=51.0) is None
    assert left([], **page) is None


@pytest.mark.parametrize(("gap", "share"), [(0.9, 1.0), (1e-2, 1.0), (1e-3, 1 / 3), (1e-6, 0.25), (2.0, 1.0)])
def test_newton_steps_are_not_taken_to_last_as_long_as_the_rate_of_their_gap_says(gap, share):
    page = {"solver_phase": 1 + SOLVER_PHASES.index("newton"), "newton_steps": 4, "elapsed_seconds": 12.0}
    found = left([], **page, primal_bound=1.0, dual_objective=1.0 - gap)
    assert found == pytest.approx(12.0 * share)
    assert left([], spec(tolerance=1e-3), **page, primal_bound=1.0, dual_objective=1.0 - gap) == 12.0
    later = {**LANE, "number": 2, "of": 3, "seconds_before": 100.0}
    begun = {**page, "elapsed_seconds": 112.0}
    assert left([], lane=later, **begun, primal_bound=1.0, dual_objective=1.0 - gap) == pytest.approx(50 - 12)


def test_a_lane_is_done_once_it_is_at_its_targets(tmp_path):
    lane, limits = {**LANE, "number": 4, "count": 3, "of": 9}, spec(relative_gap=1e-3)
    figures = create_state(tmp_path, 100, 6, lanes=4).lanes
    assert lanes_done(tmp_path, lane, limits) == 4
    figures["primal_bound"] = 1.0
    figures["dual_objective"] = 0.9995, 0.9, 0.9, 0.9995
    assert lanes_done(tmp_path, lane, limits) == 5
    figures["converged_by"][1] = 1
    assert lanes_done(tmp_path, lane, limits) == 6


def test_figures_of_a_finished_pass(tmp_path):
    values = {"finished_passes": 1, "M_plus": 0.5, "M_minus": -0.25, "dual_objective": 6.0, "primal_bound": 8.0}
    shown = shown_of(tmp_path, **values, updates=200, trainer_wait_seconds=1.0, elapsed_seconds=4.0)
    assert (shown["gap"], shown["relative_gap_bound"]) == (0.75, 0.25)
    assert (shown["updates_per_second"], shown["trainer_wait_ratio"]) == (50, 0.25)


def test_figures_of_a_sweep_before_the_first_pass_is_over(tmp_path):
    shown = shown_of(tmp_path, sweeps=3, M_plus=0.5, M_minus=-0.25, dual_objective=6.0, elapsed_seconds=4.0)
    assert (shown["sweep"], shown["gap"], shown["dual_objective"]) == (3, 0.75, 6.0)


def test_a_solver_that_does_not_tell_its_phase_has_none(tmp_path):
    shown = shown_of(tmp_path)
    assert (shown["solver_phase"], shown["newton"]) == (None, None)


def test_a_job_that_has_ended_shows_the_gap_of_its_certificate():
    job = {"progress": {"gap": 0.5}, "result": {"certificate": {"gap": 0.25}}}
    assert [gap_of(each) for each in (job, {**job, "result": None}, dict.fromkeys(job))] == [0.25, 0.5, None]


@pytest.mark.parametrize("phase", SOLVER_PHASES)
def test_the_phase_of_the_solver(tmp_path, phase):
    assert shown_of(tmp_path, solver_phase=SOLVER_PHASES.index(phase) + 1)["solver_phase"] == phase


@pytest.mark.parametrize(("sigma", "shown_as"), [(5.0, 5.0), (float("inf"), None)])
def test_the_last_newton_step_is_shown(tmp_path, sigma, shown_as):
    figures = {"newton_steps": 12, "scans": 26, "system_rows": 311, "sigma": sigma}
    shown = shown_of(tmp_path, M_plus=0.5, M_minus=-0.25, **figures)
    assert shown["newton"] == {"step": 12, "scans": 26, "system_rows": 311, "sigma": shown_as}
    assert shown["gap"] == 0.75


def test_what_is_not_finite_is_null(tmp_path):
    shown = shown_of(tmp_path, finished_passes=1, M_plus=-inf, M_minus=inf, primal_bound=inf)
    assert shown["gap"] is shown["relative_gap_bound"] is None


def test_history_without_the_result_and_without_half_a_line(tmp_path):
    path = tmp_path / "history.ndjson"
    assert read_history(path) == []
    whole = [json.dumps(record) for record in passes(1.0, 0.5)]
    text = "\n".join([*whole, json.dumps({"result": {"converged": True}})]) + "\n"
    for length in range(len(text) + 1):
        path.write_text(text[:length])
        found = read_history(path)
        assert found == passes(1.0, 0.5)[: len(found)]
        assert len(found) == min(2, text[:length].count("\n"))


def test_history_has_null_for_what_is_not_finite(tmp_path):
    path = tmp_path / "history.ndjson"
    path.write_text(json.dumps({"pass": 1, "gap": float("-inf"), "primal_bound": float("nan")}) + "\n")
    assert read_history(path) == [{"pass": 1, "gap": None, "primal_bound": None}]


def test_a_history_that_grows_is_parsed_line_by_line_once(tmp_path, monkeypatch):
    path, parsed = tmp_path / HISTORY, []
    history, parse = History(path), progress_module.read_json
    monkeypatch.setattr(progress_module, "read_json", lambda text: parsed.append(text) or parse(text))
    assert history.read() == []
    path.write_text('{"pass": 1}\n{"pa')
    assert history.read() == history.read() == [{"pass": 1}]
    with path.open("a") as file:
        file.write('ss": 2}\n{"result": {}}\n')
    assert history.read() == read_history(path) == [{"pass": 1}, {"pass": 2}]
    assert parsed[:-3] == ['{"pass": 1}', '{"pass": 2}', '{"result": {}}']


@given(st.lists(st.integers(1, 40_000), max_size=12), st.booleans(), st.booleans())
def test_the_last_passes_are_found_however_long_a_line_is(lengths, has_result, is_cut):
    """A line of many lanes may be longer than what is read at first."""
    lines = [json.dumps({"pass": k + 1, "note": "ü" * (length // 6)}) for k, length in enumerate(lengths)]
    lines += [json.dumps({"result": {}})] * has_result
    with TemporaryDirectory() as directory:
        path = Path(directory) / "history.ndjson"
        path.write_text("".join(f"{line}\n" for line in lines) + '{"pass": 99, "no' * is_cut)
        assert [each["pass"] for each in last_passes(path)] == list(range(1, len(lengths) + 1))[-4:]


@pytest.mark.parametrize("part", [b"", b'{"pass": 2, "ga', b"7", b"\xc3", b"null"])
def test_a_line_of_which_a_full_disk_took_a_part_costs_itself_alone(tmp_path, part):
    """The next line, or its end alone, may have been written behind it."""
    path = tmp_path / HISTORY
    whole = [json.dumps(record).encode() for record in passes(1.0, 0.5, 0.25)]
    path.write_bytes(b"\n".join([whole[0], part, *whole[1:], part, b""]))
    assert read_history(path) == last_passes(path) == passes(1.0, 0.5, 0.25)
    keep_history(tmp_path, 2)
    assert path.read_bytes() == b"".join(line + b"\n" for line in whole[:2])


@pytest.fixture
def settings(tmp_path):
    """With a dataset, `one`."""
    settings = Settings(tmp_path)
    settings.datasets.mkdir()
    make_dataset(settings.datasets / "one", *random_problem())
    return settings


def shown(settings, **fields) -> dict:
    """Of a run that was laid out for a job with these fields."""
    cache_bytes = 3 * smallest_cache()
    write_run(settings.jobs / RECORD["id"] / "run", settings.datasets / "one", cache_bytes, **fields)
    (settings.jobs / RECORD["id"] / "history.ndjson").touch()
    return job_view(settings, {**RECORD, "spec": parse_spec({"dataset": "d", **fields}).model_dump()})


def test_blocks_of_a_pass_are_those_the_reader_was_told(settings):
    assert shown(settings, solver="bm", solver_options={"n_blocks": 7})["progress"]["blocks"] == 7


def test_or_those_of_the_dataset(settings):
    assert shown(settings)["progress"]["blocks"] == len(read_manifest(settings.datasets / "one").blocks)
    # None are known while it is being read in.
    shutil.rmtree(settings.datasets / "one")
    found = job_view(settings, {**RECORD, "spec": parse_spec({"dataset": "d"}).model_dump()})
    assert found["progress"]["blocks"] is None


def test_a_stalled_job_is_one_that_the_trainer_says_has_stalled():
    assert convergence.STALLED == STALLED
