"""What is gone is told with what to use instead: fields, routes, settings, commands, options."""

import pytest

from streamsvm.api.errors import hint_of_route
from streamsvm.service import gone
from streamsvm.service.cli import USAGE, main
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import migrate, parse_spec


@pytest.mark.parametrize("field", gone.FIELDS)
def test_a_field_that_is_sent_is_refused_and_one_that_is_stored_passed_over(field):
    with pytest.raises(ServiceError) as told:
        parse_spec({"dataset": "d", field: 1})
    assert (told.value.code, told.value.hint) == ("unknown_field", gone.FIELDS[field])
    assert field not in migrate({**parse_spec({"dataset": "d"}).model_dump(), field: 1})


@pytest.mark.parametrize("path", gone.ROUTES)
def test_a_route_is_refused(path):
    assert hint_of_route([], f"{path}/a", "POST") == hint_of_route([], path, "GET") == gone.ROUTES[path] != ""
    assert hint_of_route([], f"{path}s", "GET") == ""


def test_a_setting_is_told_at_start(monkeypatch, capsys):
    for name in gone.SETTINGS:
        monkeypatch.setenv(name, "1")
    gone.tell_gone_settings()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(gone.SETTINGS)
    assert all(name in line and told in line for line, (name, told) in zip(lines, gone.SETTINGS.items(), strict=True))


@pytest.mark.parametrize("command", gone.COMMANDS)
def test_a_command_is_refused(command, capsys):
    assert main([command]) == USAGE
    assert gone.COMMANDS[command] in capsys.readouterr().err


@pytest.mark.parametrize("option", gone.OPTIONS)
def test_an_option_is_refused(option, capsys):
    with pytest.raises(SystemExit):
        main(["train", "a.svm", option, "1"])
    assert gone.OPTIONS[option] in capsys.readouterr().err


def test_an_option_that_another_command_has_is_taken_there(capsys):
    """The demo has no --port any more."""
    with pytest.raises(SystemExit):
        main(["serve", "--port", "x"])
    assert "argument --port: invalid int value: 'x'" in capsys.readouterr().err
