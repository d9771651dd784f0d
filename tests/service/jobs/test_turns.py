"""Which jobs have their values of C in turn, and where each turn begins."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.lanes import continuing
from streamsvm.service.jobs.lanes.lane_files import checkpoint_place, lane_directory, numbers_before
from streamsvm.service.jobs.lanes.warm_start import begin_lane
from streamsvm.service.jobs.plan.lanes import turns_of
from streamsvm.service.jobs.plan.plan import JobPlan, _lanes_a_run, plan_job
from streamsvm.service.processes.run import prepare_run
from streamsvm.storage.blocks.manifest import Manifest, WeightCounts, read_manifest
from streamsvm.storage.run.checkpoint import SURE_SLOTS, write_checkpoint
from tests.contracts.problems import make_dataset, random_problem
from tests.service.jobs.test_problem import manifest
from tests.training import open_state_of

UNIT = replace(manifest(), Qii_spread=(1.0, 50.0, 1.0))  # the mean squared norm is 1
PATH = [0.1, 1.0, 1000.0]


def turns(data: Manifest = UNIT, **fields) -> int:
    return len(turns_of(parse_spec({"dataset": "d", "bias": None, "C": PATH, **fields}), data))


def test_a_large_C_on_few_rows_is_worth_a_turn():
    assert turns() == turns(folds=5) == turns(loss="squared_hinge") == 3
    assert turns(C=[1000.0, 1.0, 1000.0]) == 2
    assert turns(C=[0.1, 1.0, 199.0]) == turns(C=1000.0) == turns(C=[1000.0]) == 1
    assert turns(replace(UNIT, nnz=20 << 20)) == 1


@given(st.floats(1e-3, 1e3), st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=4, unique=True))
def test_the_scale_of_features_does_not_matter(scale, values):
    scaled = replace(UNIT, Qii_spread=(1.0, 50.0 * scale, 1.0))
    own, is_alike = turns(scaled, C=[C / scale for C in values]), len({C / scale for C in values}) < len(values)
    is_near = abs(max(values) - 200.0) < 1e-9
    assert is_near or is_alike or own == turns(C=values) == (len(values) if max(values) > 200.0 else 1)


def test_a_bias_is_a_feature():
    assert (turns(C=[0.1, 1.0], bias=None), turns(C=[0.1, 1.0], bias=20.0)) == (1, 2)


@pytest.mark.parametrize(
    "fields",
    [
        {"class_weight": {"1": 2.0}},
        {"solver": "bm"},
        {"multiclass": "crammer_singer"},
        {"solver": "dcd", "loss": "logistic"},
        {"solver": "dcd", "loss": "epsilon_insensitive"},
        {"loss": "logistic"},
        {"loss": "epsilon_insensitive"},
    ],
)
def test_what_cannot_be_scaled_or_has_no_lanes_has_no_turns(fields):
    assert turns(**fields) == 1
    assert turns(replace(UNIT, weights=WeightCounts(1.0, 50.0, 1.0, 0))) == 1


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    X, _ = random_problem(60, 20, 5)
    return make_dataset(tmp_path_factory.mktemp("data") / "data", X, np.arange(60) % 3)


def planned(dataset: Path, number: int = 0, **fields) -> JobPlan:
    spec = parse_spec({"dataset": "d", "C": PATH, "folds": 5, **fields})
    return replace(plan_job(spec, read_manifest(dataset), cores=1), number=number)


def test_a_turn_begins_with_what_the_last_one_found_in_its_box(dataset, tmp_path):
    """Group by group: each with that of the same classes and folds."""
    rng = np.random.default_rng(0)
    assert planned(dataset).firsts == [0, 16, 18, 34, 36, 52]
    for number in (18, 34, 36, 52):
        plan = planned(dataset, number)
        before = replace(plan, number=number - 18)
        assert [(lane.positive, lane.fold) for lane in before.running] == [
            (lane.positive, lane.fold) for lane in plan.running
        ]
        C, C_before = plan.lane.C, before.lane.C
        alpha = C_before * rng.choice([0.0, 0.3, 1.0], (plan.n_rows, plan.tasks.width))
        w = rng.standard_normal((plan.width, plan.tasks.width))
        directory = lane_directory(tmp_path, before)
        directory.mkdir(parents=True)
        write_checkpoint(directory / SURE_SLOTS[0], {"number": 1, "pieces": 0, "control": {}}, {"alpha": alpha, "w": w})
        run = tmp_path / f"run{number}"
        prepare_run(run, plan, dataset, warm_up=lambda state, plan=plan: begin_lane(state, plan, tmp_path))
        state, own = open_state_of(run), slice(len(plan.running))  # further columns only fill the axis
        alpha, w = alpha[:, own], w[:, own]
        np.testing.assert_allclose(state.alpha[:, own], alpha * (C / C_before), rtol=1e-15)
        np.testing.assert_array_equal(state.alpha[:, own] == C, alpha == C_before)
        assert state.alpha.max() <= C
        np.testing.assert_allclose(state.w[:, own], w * (C / C_before), rtol=1e-15)


def test_checkpoints_are_kept_as_long_as_a_turn_may_begin_there(dataset, tmp_path):
    firsts = planned(dataset).firsts
    for first in firsts:
        directory = lane_directory(tmp_path, planned(dataset, first))
        directory.mkdir(parents=True)
        (directory / SURE_SLOTS[0]).touch()
    kept = {}
    for first in firsts:
        checkpoint_place(tmp_path, planned(dataset, first))
        kept[first] = sorted(int(path.parent.name) for path in tmp_path.rglob(SURE_SLOTS[0]))
    assert kept == {first: firsts[max(0, place - place % 2 - 2) :] for place, first in enumerate(firsts)}


@pytest.mark.parametrize(
    ("fields", "number", "before"),
    [
        ({}, 0, {}),
        ({}, 16, {}),
        ({}, 18, {0: [(place, place) for place in range(16)]}),
        ({"C": [0.1, 1.0, 2.0]}, 16, {}),  # side by side
        ({"solver": "bm"}, 2, {1: [(0, 0)]}),
        ({"solver": "bm"}, 3, {}),  # of the next fold
        ({"solver": "bm", "class_weight": {"1": 2.0}}, 2, {}),
        # Values 4 and 16 times the largest one of the first turn, class by class and fold by fold: 15 lanes of each.
        ({"C": "auto"}, 60, {0: [(4 * (k // 2) + 3, k) for k in range(30)]}),
    ],
)
def test_lanes_begin_where_those_of_the_same_class_and_fold_ended(dataset, fields, number, before):
    assert numbers_before(planned(dataset, number, **fields)) == before


@pytest.mark.parametrize(("best", "tried"), [(0.125, [0.0625, 0.25]), (8.0, [4.0]), (2.0**-7, [2.0**-6])])
def test_half_and_twice_the_best_C_follow_a_search(dataset, best, tried):
    plan = planned(dataset, C="auto", class_weight={"1": 3.0}).with_neighbours(90, best)
    assert [lane.C for lane in plan.lanes[90:]] == tried * 15
    assert {lane.C_positive / lane.C for lane in plan.lanes[90:]} == {1.0, 3.0}
    assert plan.starts == (0, 60, 90) and plan.spec.Cs == tuple(sorted({lane.C for lane in plan.lanes}))
    assert plan.with_neighbours(90 + 15 * len(tried), best).lanes == plan.lanes


def test_the_end_of_a_search_is_the_same_from_files_alone(dataset, monkeypatch):
    """As it is step by step: here no value has peaked, and the best one is a neighbour that has a neighbour itself."""
    spec = parse_spec({"dataset": "d", "C": "auto", "folds": 5})
    plan = afresh = plan_job(spec, replace(read_manifest(dataset), n_rows=5000), cores=1)
    best = 2.0 * plan.spec.Cs[0]
    assert plan.spec.Cs[1] == 4.0 * best

    def judged(plan, _job_dir, n_done, _known=None):
        Cs = plan.Cs_of(n_done)
        return SimpleNamespace(Cs=Cs, has_peaked=False, selected_C=min(Cs, key=lambda C: abs(C - best)))

    monkeypatch.setattr(continuing, "cross_validation", judged)
    done: list[dict] = []
    while not plan.has_searched:
        done += [{"result": {"stop_reason": "relative_gap"}}] * (len(plan.lanes) - len(done))
        plan = continuing.searched(plan, Path(), done)
    assert plan.lanes == continuing.searched(afresh, Path(), done).lanes
    assert {lane.C for lane in plan.lanes if lane.fold is None} == {best}


def test_runs_of_a_turn_are_of_about_one_size():
    assert [_lanes_a_run(lanes, 264) for lanes in (1, 130, 264, 520, 780)] == [1, 136, 264, 264, 264]
    assert [_lanes_a_run(lanes, 16) for lanes in (15, 16, 17, 26, 33)] == [16] * 5
