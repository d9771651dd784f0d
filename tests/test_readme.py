"""The pages name everything there is, each where it is maintained, and their links lead somewhere."""

import re
import tomllib
from pathlib import Path

import pytest

from streamsvm.api.app import create_app
from streamsvm.reader.parsers import READERS
from streamsvm.service.commands import COMMANDS
from streamsvm.service.jobs.fields.texts import general_table, input_table, option_table
from streamsvm.service.jobs.progress.states import TRANSITIONS
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.settings import Settings
from streamsvm.storage.features import FEATURE_MAPS
from streamsvm.storage.run.slowdowns import SLOWDOWNS
from streamsvm.trainer.solvers import SOLVERS
from streamsvm.trainer.sweeps.selection import SCHEDULES
from tests.pages import PAGES, ROOT, page

SETTINGS = [f"STREAMSVM_{name.upper()}" for name in Settings.__dataclass_fields__]
NAMES = {"trainer": SCHEDULES, "reader": READERS, "service": [*TRANSITIONS, *MODEL_FORMATS, *FEATURE_MAPS]}
MOST_LINES = 120

_FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_TARGET = re.compile(r"`make ([a-z-]+)(?![0-9a-z-])")  # not targets of a Python's number
_MODULE = re.compile(r"`((?:api|deploy|reader|service|storage|tests|trainer)/[\w/.]+\.py)`")
MAKEFILE_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_fields_of_a_job():
    assert general_table() in page("service")


@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers(solver):
    assert f"\n| `{solver}` |" in page("trainer")


def test_options_of_solvers():
    assert option_table() in page("trainer")


@pytest.mark.parametrize(("folder", "name"), [(folder, name) for folder, names in NAMES.items() for name in names])
def test_names(folder, name):
    assert f'`"{name}"`' in page(folder) or f"`{name}`" in page(folder)


@pytest.mark.parametrize("code", SLOWDOWNS)
def test_warnings_of_slower_ways(code):
    assert f"\n| `{code}` | {SLOWDOWNS[code].message} | {SLOWDOWNS[code].hint} |\n" in page("service")


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings(setting):
    assert f"| `{setting}` |" in page("service")


def test_input_options():
    assert input_table() in page("reader")


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command):
    assert f"streamsvm {command}" in page("service")


def test_routes(tmp_path):
    text = page("api")
    paths = create_app(Settings(tmp_path)).openapi()["paths"]
    shown = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert {route for route in shown if f"`{route}`" not in text and f"`{route}?" not in text} == set()


def test_targets_of_make():
    assert {target for target in MAKEFILE_TARGETS if f"`make {target}`" not in page("tests")} == set()


def test_names_in_files_of_the_first_guide():
    for name, file in re.findall(r"`(\w+)` in `([\w/]+\.py)`", (ROOT / "CONTRIBUTING.md").read_text()):
        assert name in (ROOT / file).read_text()


def test_the_first_page_is_short():
    assert len(page().splitlines()) <= MOST_LINES


def test_the_changelog_begins_with_this_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    newest = re.search(r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None and newest[1] == version


def anchors(path: Path) -> set[str]:
    """What a link may name in a page: its headings, as they are spelled in addresses."""
    headings = re.findall(r"^#+ (.*)$", _FENCED.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for link in _LINK.findall(_FENCED.sub("", path.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        there = path if not file else (path.parent / file).resolve()
        assert there.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in anchors(there), f"{link}: there is no such heading"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_that_are_named_are_there(path):
    named = {module for module in _MODULE.findall(path.read_text()) if "NAME" not in module}
    assert {module for module in named if not (ROOT / module).is_file()} == set()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_targets_that_are_named_are_there(path):
    assert set(_TARGET.findall(path.read_text())) <= MAKEFILE_TARGETS


def test_there_are_pages_to_look_at():
    assert {ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "api" / "README.md"} <= set(PAGES)
    assert "not-for" in anchors(ROOT / "README.md") and "demo" in MAKEFILE_TARGETS
