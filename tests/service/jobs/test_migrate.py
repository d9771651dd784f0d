"""Jobs that other versions have stored, in the fields of this version."""

import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import JobSpec, migrate, parse_spec, read_spec
from streamsvm.service.obsolete_names import FIELDS as GONE
from streamsvm.service.obsolete_names import SOLVER_OPTIONS
from streamsvm.service.processes.worker import Worker
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from streamsvm.trainer.solvers import OPTIONS, users
from tests.contracts.problems import make_dataset, random_problem
from tests.refusals import refused

# What 0.1.0 stored of {"dataset": "d"}.
STORED = {
    "dataset": "d", "solver": "streamsvm", "loss": "hinge", "epsilon": 0.1, "C": 1.0, "bias": None,
    "class_weight": None, "tolerance": 0.001, "relative_gap": None, "max_passes": 100, "max_seconds": None, "seed": 0,
    "cache_bytes": 268435456, "memory_bytes": None, "eviction": "score", "paper_epsilon": None, "paper_beta": "step",
    "paper_reset": False, "paper_gradient": "plain", "screening": 0.1, "selection": "uniform", "pace": "adaptive",
    "spill": True, "threads": 1, "updates_per_row": 2.0, "n_blocks": None, "permute_blocks": True, "max_cuts": 200,
    "inner_rounds": 10, "update": "row", "select": "gap", "cache_share": 0.5, "checkpoint_seconds": 60.0,
    "schedule": "accumulators", "warm_start": None, "labels": {},
}  # fmt: skip


def migrated(**fields) -> JobSpec:
    """As a job that goes on is read: checked as if it were submitted. Of both sizes, cache_bytes counts."""
    return parse_spec(migrate({**STORED, **fields}))


# The tolerance was the default, and there was no bias.
ASKED = {"dataset": "d", "tolerance": 1e-3, "bias": None}


def test_the_defaults_of_then_are_those_of_now_but_for_the_end_and_the_bias():
    assert migrated() == parse_spec(ASKED)


def test_what_a_job_chose_is_kept():
    chosen = {"solver": "sbm", "C": 3.0, "labels": {"team": "ads"}, "seed": 7}
    options = {"select": "distance", "n_blocks": 4}
    assert migrated(**chosen, **options) == parse_spec({**ASKED, **chosen, "solver_options": options})


@pytest.mark.parametrize("name", SOLVER_OPTIONS)
def test_an_option_that_was_a_field_is_one_of_its_solver(name):
    """0.2.0 stored the options of all solvers among the fields of every job."""
    general = {key: each for key, each in parse_spec({"dataset": "d"}).model_dump().items() if key != "solver_options"}
    stored = {**general, **{key: OPTIONS[key].default for key in SOLVER_OPTIONS}}
    assert read_spec(stored) == parse_spec({"dataset": "d"})
    value = SOLVER_OPTIONS[name][1]
    for solver in users(name):
        own = {"solver": solver}
        found = read_spec({**stored, **own, name: value})
        assert getattr(found.options, name) == value
        assert found.solver_options.keys() == parse_spec({"dataset": "d", **own}).solver_options.keys()
        assert f'"{solver}"' in GONE[name]
    assert len(GONE[name].split(": ")[0].split(",")) == len(users(name))


def test_the_rule_of_the_paper_has_become_a_solver():
    found = migrated(eviction="paper", updates_per_row=4.0, screening=0.0)
    assert found == parse_spec({**ASKED, "solver": "streamsvm_paper", "solver_options": {"updates_per_row": 4.0}})


def test_and_its_options_have_other_names():
    stored = {"paper_epsilon": 9.0, "paper_beta": "sweep", "paper_reset": True, "paper_gradient": "projected"}
    own = migrated(eviction="paper", **stored).options
    assert (own.epsilon_start, own.epsilon_decay) == (9.0, "sweep")
    assert (own.epsilon_reset, own.epsilon_gradient) == (True, "projected")
    assert migrated(eviction="paper").options.epsilon_decay == "pick"


def test_adaptive_selection_is_left_out():
    assert migrated(selection="adaptive") == parse_spec(ASKED)


@pytest.mark.parametrize(
    ("solver", "threads", "kept"),
    [("streamsvm", 1, None), ("streamsvm", 2, None), ("dcd", 1, None), ("cpa", 1, 1), ("ocas", 2, 2)],
)
def test_threads_stay_where_they_make_the_run_what_it_is(solver, threads, kept):
    assert migrated(solver=solver, threads=threads).threads == kept


@pytest.mark.parametrize("fields", [{}, {"threads": 1}, {"solver": "cpa", "solver_options": {"max_cuts": 9}}])
def test_a_job_of_this_version_is_left_as_it_is(fields):
    stored = parse_spec({"dataset": "d", **fields}).model_dump()
    assert migrate(stored) == stored


def test_no_field_that_is_gone_is_there():
    assert not GONE.keys() & JobSpec.model_fields.keys()
    assert not GONE.keys() & migrate(STORED).keys()


@pytest.mark.parametrize("stored", [{}, {"tolerance": 1e-3}, {"tolerance": 1e-3, "relative_gap": None}])
def test_a_job_from_before_the_relative_gap_was_the_default_ends_by_its_tolerance(stored):
    assert read_spec({"dataset": "d", **stored}) == parse_spec({"dataset": "d", "tolerance": 1e-3, "bias": None})


def test_a_job_from_before_there_was_a_bias_by_default_has_none():
    spec = parse_spec({"dataset": "d", "bias": None})
    assert read_spec(spec.model_dump(exclude={"bias"})) == read_spec(spec.model_dump()) == spec


def test_a_job_that_was_to_run_for_ever_still_is():
    assert read_spec({"dataset": "d", "tolerance": None}).relative_gap is None


@pytest.mark.parametrize("stored", [{"momentum": 0.9}, {"solver": "perceptron"}])
def test_a_job_that_this_version_does_not_have_is_refused(stored):
    with refused(ServiceError, "job_outdated") as caught:
        read_spec({"dataset": "d", **stored})
    assert next(iter(stored)) in caught.value.message


def test_the_worker_fails_such_a_job_and_lives(tmp_path):
    settings = Settings(tmp_path, tmp_path)
    settings.create_directories()
    store = Store(settings.database)
    dataset_id = store.add_dataset("data")
    make_dataset(settings.datasets / dataset_id, *random_problem(60, 40))
    store.set_dataset_ready(dataset_id)
    job_id = store.add_job(dataset_id, {"dataset": "data", "momentum": 0.9})
    worker = Worker(settings)
    worker.step()
    worker.shutdown()
    failed = store.job(job_id)
    assert (failed["state"], failed["failure"]["code"]) == ("failed", "job_outdated")
