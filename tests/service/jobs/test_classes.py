"""A job whose classes are one problem: what it consists of, takes and refuses; classes that are weighed alike."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from streamsvm import StreamSVC, load
from streamsvm.reader.certificate.kept_values import HELD_OUT
from streamsvm.reader.ingest.shuffle import PIECE_WORDS
from streamsvm.service.cli import main
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.plan.forecast import estimate
from streamsvm.service.jobs.plan.memory import memory_of
from streamsvm.service.jobs.plan.plan import can_follow, plan_job
from streamsvm.service.jobs.plan.run_file import run_file
from streamsvm.storage.blocks.manifest import WeightCounts
from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.solvers import SOLVERS
from tests.service.jobs.test_lanes import THREE
from tests.service.jobs.test_problem import manifest, plan, refusal

ROWS = "label,a\n" + "".join(f"{'no' if k % 5 else 'yes'},{k % 7 + (k % 5 == 0) * 3}\n" for k in range(60))
JOINT = {"multiclass": "crammer_singer"}


def test_a_lane_for_each_C_and_fold():
    found = plan(THREE, **JOINT, C=[1.0, 0.1], folds=2)
    assert [(lane.view["class"], lane.fold, lane.C) for lane in found.lanes] == [
        (None, fold, C) for fold in (0, 1, None) for C in (0.1, 1.0)
    ]
    assert len(found.running) == 1 and found.next_lanes([]).number == 0


def test_a_class_has_its_C():
    found = plan(THREE, **JOINT, C=2.0, class_weight={"1": 3.0, "2": 0.5})
    tasks = found.tasks
    assert tuple(task.C_positive for task in tasks.each) == (6.0, 1.0, 2.0) and tasks.labels == (1.0, 2.0, 3.0)
    assert (tasks.is_joint, tasks.largest_C, tasks.table.U[:, 0].tolist()) == (True, 6.0, [6.0, 1.0, 2.0])
    told = run_file(found, Path("d"))
    assert Tasks.of(told["reader"]["tasks"]) == Tasks.of(told["trainer"]["tasks"]) == tasks


def test_rows_of_a_fold_are_left_out_by_their_kind():
    found = plan(THREE, **JOINT, folds=2)
    assert found.tasks.leaving_rows_out == (0, 1, 2)
    assert (found.tasks.table.U[:, 0] == 0).tolist() == [True, False] * 3
    last = replace(found, number=2)
    assert not last.tasks.leaving_rows_out and last.tasks.table.U[:, 0].all()
    assert not run_file(found, Path("d"))["reader"]["has_weights"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_other_solvers_and_losses_are_refused(solver):
    for loss in SOLVERS[solver].losses:
        asked = {"dataset": "d", "solver": solver, "loss": loss, **JOINT}
        if (solver, loss) == ("streamsvm", "hinge"):
            assert parse_spec(asked).is_joint
            continue
        with pytest.raises(ServiceError) as caught:
            parse_spec(asked)
        assert caught.value.code == "multiclass_range" and "streamsvm" in caught.value.hint


def test_more_classes_than_lanes_there_may_be_are_refused():
    assert refusal({float(k): 3 for k in range(1001)}, **JOINT).code == "too_many_classes"
    assert len(plan({float(k): 3 for k in range(1000)}, **JOINT).lanes) == 1


def test_memory_is_that_of_all_classes():
    def bytes_of(n_classes, **fields):
        rows = manifest(dict.fromkeys(map(float, range(n_classes)), 1000 // n_classes))
        spec = parse_spec({"dataset": "d", "bias": None, **JOINT, **fields})
        found = memory_of(spec, replace(rows, n_rows=10**6, n_features=10**5 - 1), 1)
        return found.rows_bytes + found.solver_bytes, found.features_bytes

    # Score and stamps, alpha and that before a sweep, whether a row is set aside; three w.
    assert bytes_of(20) == (10**6 * (8 + 2 * 24 * 8 + 1), 10**5 * 24 * 24)
    assert bytes_of(3)[1] == bytes_of(4)[1] == bytes_of(5)[1] / 2
    more = bytes_of(20, folds=3)[0] - bytes_of(20)[0]
    assert more == 10**6 * (20 * HELD_OUT.itemsize + 2)  # and the fold of each row


def test_pieces_of_rows_with_few_values_and_many_classes_take_memory():
    """At least what the arrays of one such piece take while it is certified."""
    rows = replace(manifest(dict.fromkeys(map(float, range(500)), 2)), n_rows=10**6, nnz=10**6)
    one, joint = (memory_of(parse_spec({"dataset": "d", **more}), rows, 1) for more in ({}, JOINT))
    in_a_piece = PIECE_WORDS // 5
    assert joint.buffers_bytes - one.buffers_bytes > 9 * in_a_piece * 500 * 8


def test_an_estimate_counts_all_classes():
    found, one = estimate(plan(THREE, **JOINT)), estimate(plan({1.0: 5, 2.0: 10}))
    assert found["lanes"] == {"count": 1, "at_once": 1, "groups": 1}
    assert found["disk"]["model_bytes"] == 3 * one["disk"]["model_bytes"]
    assert found["memory"]["rows_bytes"] > one["memory"]["rows_bytes"]
    assert found["disk"]["run_bytes"] > one["disk"]["run_bytes"]


def test_it_needs_to_know_all_labels_before_it_begins():
    assert can_follow(parse_spec({"dataset": "d"}))
    assert not can_follow(parse_spec({"dataset": "d", **JOINT}))


def test_weights_of_rows_are_trained_with():
    weighted = replace(manifest(THREE), weights=WeightCounts(1.0, 50.0, 1.0, 0))
    told = run_file(plan_job(parse_spec({"dataset": "d", **JOINT}), weighted), Path("d"))
    assert told["reader"]["has_weights"] and told["trainer"]["largest_weight"] == 1.0


def evaluated(directory, capfd):
    """The objective by `streamsvm evaluate`."""
    capfd.readouterr()
    assert main(["evaluate", str(directory / "m.npz"), str(directory / "t.csv"), "--json"]) == 0
    return json.loads(capfd.readouterr().out)["objective"]


@pytest.mark.filterwarnings("ignore:.*rows_contrary")
def test_labels_weigh_alike(tmp_path, capfd):
    (tmp_path / "t.csv").write_text(ROWS)
    told = ["--class-weight", "yes=2.5", "--class-weight", "no=0.625"]
    weights = {"balanced": ["--class-weight", "balanced"], "told": told}
    found, objectives = {}, {}
    for name, options in weights.items():
        assert main(["train", str(tmp_path / "t.csv"), *options, "-o", str(tmp_path / "m.npz")]) == 0
        model = load(tmp_path / "m.npz").model_
        found[name], objectives[name] = model.w.tolist(), evaluated(tmp_path, capfd)
        # What was trained is what an evaluation sums up.
        assert objectives[name] == pytest.approx(model.about["certificate"]["primal_objective"], rel=1e-6)
    assert found["balanced"] == found["told"] and objectives["balanced"] == objectives["told"]
    model = StreamSVC(class_weight="balanced").fit(tmp_path / "t.csv")
    assert model.coef_.ravel().tolist() == pytest.approx([abs(w) for w in found["told"]], rel=1e-3)


def test_rows_with_weights_are_not_balanced_by_their_number(tmp_path):
    lines = ROWS.splitlines()
    (tmp_path / "t.csv").write_text("\n".join([lines[0] + ",w", *(f"{line},2" for line in lines[1:])]))
    options = ["--weight-column", "w", "--class-weight", "balanced", "-o", str(tmp_path / "m.npz")]
    assert main(["train", str(tmp_path / "t.csv"), *options]) == 2


@pytest.mark.parametrize("given", ["balance", {"1": 0}, ["balanced"]])
def test_other_words_are_refused(given):
    with pytest.raises(ServiceError):
        parse_spec({"dataset": "d", "class_weight": given})
    assert parse_spec({"dataset": "d", "class_weight": "balanced"}).class_weight == "balanced"
