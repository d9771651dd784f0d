"""Fields of the interface become options in hints, and nouns of the interface become commands."""

import re

import pytest

from streamsvm.reader.errors import HINTS
from streamsvm.service.commands.spelling import in_dashes, spell_out


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("set label_column to a name", "set --label-column to a name"),
        ("set index_base=0", "set --index-base 0"),
        ("x; header=yes if; label_type=string", "x; --header yes if; --label-type string"),
        ("the first line of the format, a header", "the first line of the format, a header"),
        ("raise max_features", "raise max_features"),
        ('scale them ("features": ["scale"]), or', "scale them (--features scale), or"),
        ("ids: 'text_column'. Leave out: drop_columns", "ids: 'text_column'. Leave out: --drop-columns"),
    ],
)
def test_fields_are_options_on_the_command_line(hint, expected):
    assert in_dashes(hint) == expected


def test_no_hint_of_the_reader_keeps_the_interfaces_spelling():
    """Names of environment variables, in capitals, are the same everywhere."""
    assert not [hint for hint in map(in_dashes, HINTS.values()) if re.search("[a-z]_|=", hint)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [("datasets ls", "data ls"), ("jobs", "job"), ("data rm datasets", "data rm datasets"), ("", "")],
)
def test_nouns_of_the_interface_are_commands(line, expected):
    assert spell_out(line.split()) == expected.split()
