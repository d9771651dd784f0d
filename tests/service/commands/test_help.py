"""The commands; those for a service start at once, because none of them imports the engine."""

import argparse
import json
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

from streamsvm.reader.options import FORMATS
from streamsvm.reader.parsers import READERS
from streamsvm.service.cli import main
from streamsvm.service.commands import COMMANDS, GROUPS, job
from streamsvm.service.jobs.lanes.continuing import CHANGEABLE
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.formats import SUFFIXES

_SLOW = ("numba", "numpy", "scipy", "pydantic", "fastapi")
_IMPORTED = f"""
import json, sys
from streamsvm.service.cli import main
found = {{}}
for words in sys.argv[1:]:
    try:
        found[words] = main(words.split())
    except SystemExit as ended:
        found[words] = ended.code
    assert not [name for name in {_SLOW} if name in sys.modules], words
print(json.dumps(found))
"""


def test_what_a_service_does_needs_no_engine_here(tmp_path):
    words = [
        "--help", "serve --help", "job ls", "prediction ls", "job resume job_0 --max-passes 3", "data ls",
        "data add name -", "model ls", f"token ls --data-dir {tmp_path}",
    ]  # fmt: skip
    environment = {"STREAMSVM_URL": "http://127.0.0.1:9"}
    command = [sys.executable, "-c", _IMPORTED, *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, input="")
    assert done.returncode == 0, done.stderr
    ended = json.loads(done.stdout.splitlines()[-1])
    assert list(ended) == words and ended["--help"] == 0 != ended["job ls"]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_registry_says_what_the_module_does(command):
    module = import_module(f"streamsvm.service.commands.{command}")
    assert module.__doc__ == COMMANDS[command]
    assert callable(module.add_arguments) and callable(getattr(module, "run", None) or module.add_action)


def test_names_stand_for_what_is_slow_to_import():
    assert tuple(READERS) == FORMATS
    assert {name: kind.suffix for name, kind in MODEL_FORMATS.items()} == SUFFIXES


def test_every_command_is_in_a_group_of_the_help():
    assert [name for names in GROUPS.values() for name in names] == list(COMMANDS)


def test_a_job_that_goes_on_may_change_what_the_service_lets_it():
    parser = argparse.ArgumentParser()
    job.add_end_arguments(parser)
    assert tuple(vars(parser.parse_args([]))) == CHANGEABLE


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"streamsvm {version('streamsvm')}\n"


def test_the_help_fits_a_screen(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 24 and max(map(len, lines)) <= 80
    for name, meaning in COMMANDS.items():
        assert f"  {name:<10}  {meaning}" in lines


def test_without_a_word_it_says_what_there_is(capsys):
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("usage: streamsvm COMMAND ...")


def test_who_mistypes_an_option_is_told_of_that_one(capsys):
    with pytest.raises(SystemExit):
        main(["train", "rows.svm", "-C", "1,x"])
    assert capsys.readouterr().err.splitlines() == [
        "usage: streamsvm train [options] file",
        "streamsvm train: error: argument -C/-c: 1,x is no number, list such as 0.1,1,10 or 1e-3:10:9, nor auto or "
        "auto-1se",
    ]


def test_a_directory_is_no_file(tmp_path, capsys):
    assert main(["predict", str(tmp_path), "rows"]) == 2
    said = capsys.readouterr().err
    assert said == (
        f"streamsvm: {tmp_path} is a directory, not a file\n"
        f"  Name a file, or files by a pattern in quotes: '{tmp_path}/*'\n"
    )


def test_a_pattern_that_the_shell_expanded_is_to_be_quoted(tmp_path, capsys):
    files = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    for name in files:
        Path(name).write_text("")
    with pytest.raises(SystemExit):
        main(["train", *files])
    assert "Put a pattern of several files in quotes" in capsys.readouterr().err


def test_a_command_has_a_help_of_its_own(capsys):
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    assert "--no-worker" in capsys.readouterr().out
