"""What is gone is told with what to use instead: fields, routes, settings, commands, options."""

import pytest

from streamsvm.api.errors import hint_of_route
from streamsvm.service import obsolete_names
from streamsvm.service.cli import USAGE, main
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import migrate, parse_spec


@pytest.mark.parametrize("field", obsolete_names.FIELDS)
def test_a_field_that_is_sent_is_refused_and_one_that_is_stored_passed_over(field):
    with pytest.raises(ServiceError) as told:
        parse_spec({"dataset": "d", field: 1})
    assert (told.value.code, told.value.hint) == ("unknown_field", obsolete_names.FIELDS[field])
    assert field not in migrate({**parse_spec({"dataset": "d"}).model_dump(), field: 1})


@pytest.mark.parametrize("path", obsolete_names.ROUTES)
def test_a_route_is_refused(path):
    assert hint_of_route([], f"{path}/a", "POST") == hint_of_route([], path, "GET") == obsolete_names.ROUTES[path] != ""
    assert hint_of_route([], f"{path}s", "GET") == ""


def test_a_setting_is_told_at_start(monkeypatch, capsys):
    for name in obsolete_names.SETTINGS:
        monkeypatch.setenv(name, "1")
    obsolete_names.tell_gone_settings()
    lines, sentences = capsys.readouterr().err.splitlines(), obsolete_names.SETTINGS.items()
    assert len(lines) == len(sentences)
    assert all(name in line and told in line for line, (name, told) in zip(lines, sentences, strict=True))


@pytest.mark.parametrize("command", obsolete_names.COMMANDS)
def test_a_command_is_refused(command, capsys):
    assert main([command]) == USAGE
    assert obsolete_names.COMMANDS[command] in capsys.readouterr().err


@pytest.mark.parametrize("option", obsolete_names.OPTIONS)
def test_an_option_is_refused(option, capsys):
    with pytest.raises(SystemExit):
        main(["train", "a.svm", option, "1"])
    assert obsolete_names.OPTIONS[option] in capsys.readouterr().err


def test_an_option_that_another_command_has_is_taken_there(capsys):
    """The demo has no --port any more."""
    with pytest.raises(SystemExit):
        main(["serve", "--port", "x"])
    assert "argument --port: invalid int value: 'x'" in capsys.readouterr().err
