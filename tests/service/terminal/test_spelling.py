"""Fields of the interface become options in hints, and nouns of the interface become commands."""

import re

import pytest

from streamsvm.reader.errors import HINTS
from streamsvm.service.jobs.fields.descriptions import FIELDS
from streamsvm.service.terminal import spelling
from streamsvm.service.terminal.spelling import in_dashes, spell_out
from streamsvm.storage.run.slowdowns import SLOWDOWNS


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("set label_column to a name", "set --label-column to a name"),
        ("set index_base=0", "set --index-base 0"),
        ("x; header=yes if; label_type=string", "x; --header yes if; --label-type string"),
        ("the first line of the format, a header", "the first line of the format, a header"),
        ("raise max_features", "raise max_features"),
        ('scale them ("features": ["scale"]), or', "scale them (--features scale), or"),
        ('train anew with "pace": "adaptive", which', "train anew with --pace adaptive, which"),
        ("raise cache_bytes or memory_bytes", "raise --cache or --memory"),
        ("a larger max_passes and a larger max_seconds", "a larger --max-passes and a larger --max-seconds"),
        ("PUT /v1/datasets/a?label_type=string", "PUT /v1/datasets/a?label_type=string"),
        ("ids: 'text_column'. Leave out: drop_columns", "ids: 'text_column'. Leave out: --drop-columns"),
    ],
)
def test_fields_are_options_on_the_command_line(hint, expected):
    assert in_dashes(hint) == expected


def test_fields_of_a_job_in_hints_of_slowdowns_are_options():
    """`decoded_bytes` is a figure of a dataset, which no option sets."""
    hints = [in_dashes(each.hint) for each in SLOWDOWNS.values()]
    names = {name for hint in hints for name in re.findall("[a-z]+_[a-z_]+", hint)}
    assert names == {"decoded_bytes"}


def test_fields_of_a_job_that_hints_name_exist():
    assert set(spelling._FIELDS) <= FIELDS.keys()
    flags = {name: FIELDS[name].flags[-1] for name in spelling._FIELDS if FIELDS[name].flags}
    assert flags == spelling._OTHER_FLAGS


def test_no_hint_of_the_reader_keeps_the_interfaces_spelling():
    """Names of environment variables, in capitals, are the same everywhere."""
    assert not [hint for hint in map(in_dashes, HINTS.values()) if re.search("[a-z]_|=(?!-)", hint)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [("datasets ls", "data ls"), ("jobs", "job"), ("data rm datasets", "data rm datasets"), ("", "")],
)
def test_nouns_of_the_interface_are_commands(line, expected):
    assert spell_out(line.split()) == expected.split()
