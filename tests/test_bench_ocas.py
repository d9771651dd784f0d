"""What OCAS's experiments make of repeats: who is sooner, how cases are grouped, when threads decide nothing."""

import pytest

from tests.bench import jobs
from tests.bench.papers import ocas_jobs, ocas_runs
from tests.bench.papers.ocas import WORTH_WHILE, faster
from tests.bench.papers.ocas_cases import Contest, grouped, is_sooner, winners
from tests.bench.papers.ocas_runs import Problem, Sized, bounds
from tests.bench.papers.ocas_time import _grid, grows, power, told
from tests.bench.papers.trace import Optimum
from tests.contracts.problems import random_problem


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([1.0, 1.2], [1.3, 2.0], True),
        ([1.0, 1.4], [1.3, 2.0], None),
        ([3.0, 3.0], [1.3, 2.0], False),
        ([1.0], [1.05], None),
        ([1.0], [1.2], True),
        ([1.0, None], [2.0, 3.0], None),
        ([None, None], [2.0, 3.0], False),
        ([1.0, 1.0], [None, None], True),
        ([None], [None], None),
    ],
)
def test_repeats_decide_who_is_sooner_only_where_they_are_apart(ours, theirs, expected):
    assert is_sooner(ours, theirs) is expected


def test_values_of_C_that_end_alike_are_one_case():
    contests = [
        Contest("small", "0.01", [2.0], {"A": [1.0], "B": [4.0]}),
        Contest("small", "1", [None], {"A": [1.0], "B": [4.0]}),
        Contest("small", "100", [1.0], {"A": [None], "B": [None]}),
        Contest("other", "1", [1.0], {}),
    ]
    assert [(str(case), case.holds) for case in grouped(contests)] == [
        ("small, C = 0.01, 1 (2 times A's; never, A 1 s)", False),
        ("small, C = 100 (1 s, others never)", True),
    ]
    assert winners(contests) == "A on 2, OCAS here on 1 of 3"


def problem(C, ocas, liblinear, doubt=1e-9, area=0.5):
    """Solvers that come from 2 to the optimum, 1, after so many seconds, a number a repeat."""
    made = {"OCAS here": ocas, "LIBLINEAR": liblinear}
    curves = {name: [[(0.1, 2.0), (each, 1.0)] for each in seconds] for name, seconds in made.items()}
    return Problem("small", C, Optimum(1.0, doubt), {"CPA here": [], "libocas": [], "SGD": [], **curves}, area)


def test_a_grid_of_C_is_as_long_as_its_parts_and_unknown_where_the_optimum_is():
    parts = [problem(1.0, [2.0, 2.5], [3.0, 4.0], area=0.9), problem(10.0, [1.0, 1.0], [0.5, 0.5], area=0.8)]
    short = list(_grid(parts))
    assert "| small | 3.2 ± 0.25 | - | - | 4 ± 0.5 | - | 1 | 0.9000 |" in short
    assert any("**Undecided**. Undecided: small (0.81 times LIBLINEAR's)." in line for line in short)
    unknown = list(_grid([problem(1.0, [2.0], [3.0]), problem(10.0, [1.0], [0.5], doubt=0.1)]))
    assert any(line.startswith("**Undecided**") for line in unknown)


def test_a_cell_says_how_far_off_a_solver_was_given_up():
    one = problem(1.0, [2.0, 2.0], [3.0, 4.0])
    assert [told(one, name, 1e-2) for name in ("OCAS here", "LIBLINEAR", "SGD")] == ["2", "3.5 ± 0.5", "not here"]
    one.curves["SGD"] += [[(1.0, 1.5)], [(1.0, 1.0)]]
    assert told(one, "SGD", 1e-2) == "1, 1 of 2 (5e-01)"
    assert told(problem(1.0, [1.0], [1.0], doubt=0.1), "LIBLINEAR", 1e-2) == "?"


def test_growth_is_undecided_where_the_seeds_are_on_both_sides():
    linear = [Sized(n_rows, [n_rows / 1e3, (n_rows / 1e3) ** 1.2], True) for n_rows in (1000, 3000, 10_000)]
    assert power(linear) == pytest.approx([1.0, 1.2])
    assert power(linear[:2]) == []
    assert [grows("made", powers).holds for powers in ([1.0, 1.0], [1.0, 1.2], [1.2, 1.3], [])] == [
        True, None, False, None
    ]  # fmt: skip


def test_threads_decide_nothing_where_the_machine_has_no_core_to_spare():
    slow, fast = [1.0, 1.1, 1.2], [WORTH_WHILE, 1.6, 1.7]
    free, busy = [1.9, 2.0, 1.9], [1.9, 2.0, 1.2]
    found = [faster("a9a", each, capacity).holds for each, capacity in ((slow, free), (slow, busy), (fast, busy))]
    assert found == [False, None, True]
    assert faster("a9a", [1.4, 1.6, 1.7], free).holds is None


def test_what_two_threads_do_is_told_by_the_time_of_one_that_nobody_disturbed(monkeypatch):
    times = {1: [1.0, 5.0, 1.0], 2: [1.0, 1.6, 9.0]}
    monkeypatch.setattr(ocas_jobs, "_seconds", lambda pool, threads: times[threads])
    assert ocas_jobs.two_cores() == 2 * 1.0 / 1.6


def test_a_run_ends_at_an_objective_or_by_the_rule_of_the_paper(tmp_path):
    dataset = jobs.ingested(tmp_path / "data", *random_problem())
    by_rule = bounds(dataset, 1.0, "ocas", 60.0)
    enough = by_rule["curve"][-1][1] * 1.01
    to_objective = bounds(dataset, 1.0, "ocas", 60.0, enough)
    assert by_rule["ended"] and to_objective["ended"]
    assert len(to_objective["curve"]) <= len(by_rule["curve"])
    assert to_objective["curve"][-1][1] <= enough < to_objective["curve"][-2][1]


def test_turns_after_the_first_are_left_out_where_nobody_came_near(monkeypatch):
    made = []

    def run(name, data, prepared, C, optimum, most_seconds, seed):
        made.append((name, most_seconds, seed))
        near = C == 1.0 and name == "LIBLINEAR"
        return {"curve": [(0.5, 1.0 if near else 2.0)]}

    monkeypatch.setattr(ocas_runs, "SEEDS", 2)
    monkeypatch.setattr(ocas_runs, "_run", run)
    monkeypatch.setattr(ocas_runs, "reference", lambda *_: (1.0, 1.0))
    monkeypatch.setattr(ocas_runs, "kept", lambda experiment, key, run: run())
    data = type("Data", (), {"name": "small"})()
    both, first = (ocas_runs.measured(data, None, C) for C in (1.0, 2.0))
    assert [{len(each) for each in one.curves.values()} for one in (both, first)] == [{1, 2}, {1}]
    assert [name for name, each in both.curves.items() if len(each) == 2] == ["LIBLINEAR", "SGD"]
    limits = [most for _, most, seed in made[:5]]
    assert limits == [ocas_runs.LIMIT, *[min(5.0, ocas_runs.LIMIT)] * 4]
