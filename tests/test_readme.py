"""The README names everything there is."""

from pathlib import Path

import pytest

from api.app import create_app
from reader.options import InputOptions
from reader.parsers import READERS
from service.commands import COMMANDS
from service.jobs.option_table import option_table
from service.jobs.spec import JobSpec
from service.jobs.states import TRANSITIONS
from service.models.exports import MODEL_FORMATS
from service.settings import Settings
from trainer.selection import SCHEDULES
from trainer.solvers import SOLVERS

README = (Path(__file__).parent.parent / "README.md").read_text()
SETTINGS = [f"STREAMSVM_{name.upper()}" for name in Settings.__dataclass_fields__]


@pytest.mark.parametrize("field", JobSpec.model_fields)
def test_job_fields(field):
    assert f"| `{field}`" in README or f", `{field}` |" in README


def test_options_of_solvers():
    assert option_table() in README


@pytest.mark.parametrize("name", [*SOLVERS, *SCHEDULES, *MODEL_FORMATS, *TRANSITIONS, *SETTINGS, *READERS])
def test_names(name):
    assert f'`"{name}"`' in README or f"`{name}`" in README


@pytest.mark.parametrize("option", InputOptions.__dataclass_fields__)
def test_input_options(option):
    assert f"| `{option}`" in README


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command):
    assert f"streamsvm {command}" in README


def test_routes(tmp_path):
    paths = create_app(Settings(tmp_path)).openapi()["paths"]
    shown = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert {route for route in shown if f"`{route}`" not in README and f"`{route}?" not in README} == set()
