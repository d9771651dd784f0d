"""What is written once of a solver's options, and what is read there."""

from dataclasses import dataclass, fields
from typing import Literal

import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import JobSpec, parse_spec
from streamsvm.storage.options import option, options_of
from streamsvm.trainer.solvers import OPTIONS, SOLVERS, users
from tests.refusals import refused

every_solver = pytest.mark.parametrize("solver", SOLVERS)
every_option = pytest.mark.parametrize("name", OPTIONS)


@dataclass(frozen=True)
class Example:
    count: int | None = option(None, "a number", ge=1)
    share: float = option(0.5, "a share", for_reader=True, gt=0, lt=1)
    way: Literal["a", "b"] = option("a", "a choice")
    on: bool = option(True, "a switch")


def test_an_option_is_described_by_its_field():
    count, share, way, on = options_of(Example).values()
    assert (count.kind, count.is_nullable, count.limits, count.default) == (int, True, {"ge": 1}, None)
    assert (share.kind, share.is_nullable, share.for_reader, share.meaning) == (float, False, True, "a share")
    assert (way.kind, way.choices) == (str, ("a", "b"))
    assert (on.kind, on.choices, on.for_reader) == (bool, (), False)


@every_solver
def test_solvers_that_share_a_name_share_the_option(solver):
    for name, own in options_of(SOLVERS[solver].options).items():
        assert own == OPTIONS[name]
        assert solver in users(name)


@every_solver
def test_a_job_gives_its_solver_the_options_it_has(solver):
    spec = parse_spec({"dataset": "d", "solver": solver})
    assert spec.options == SOLVERS[solver].options()
    assert {known.name for known in fields(spec.options)} <= JobSpec.model_fields.keys() | spec.solver_options.keys()


@every_option
def test_an_option_is_no_field_of_a_job_but_described_with_its_solvers(name):
    described = JobSpec.model_json_schema()["$defs"]["SolverOptions"]["properties"][name]["description"]
    assert name not in JobSpec.model_fields
    assert described == f"of solver {', '.join(users(name))}: {OPTIONS[name].meaning}"


@every_option
def test_an_option_is_taken_of_its_solvers_and_refused_of_others(name):
    known = OPTIONS[name]
    other = {bool: not known.default, int: 7, float: 0.25}.get(known.kind) if not known.choices else known.choices
    value = next(choice for choice in other if choice != known.default) if known.choices else other
    for solver in SOLVERS:
        fields_ = {"dataset": "d", "solver": solver, "solver_options": {name: value}}
        if solver in users(name):
            assert getattr(parse_spec(fields_).options, name) == value
            continue
        with pytest.raises(ServiceError, match=f"solver \"{solver}\" has no option '{name}'") as caught:
            parse_spec(fields_)
        assert caught.value.code == "solver_option" and ", ".join(users(name)) in caught.value.hint


@pytest.mark.parametrize("name", [name for name, known in OPTIONS.items() if known.limits])
def test_limits_hold(name):
    limits = OPTIONS[name].limits
    outside = [limits[edge] + step for edge, step in (("ge", -1), ("le", 1), ("gt", 0), ("lt", 0)) if edge in limits]
    for value in outside:
        with refused(ServiceError, f"{name}_range"):
            parse_spec({"dataset": "d", "solver": users(name)[0], "solver_options": {name: value}})
