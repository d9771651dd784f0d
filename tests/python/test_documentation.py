"""The programs of the package's README run as they stand, and so do the examples of the docstrings."""

import doctest
import re
from pathlib import Path

import pytest

import streamsvm.classifier
import streamsvm.regressor
from streamsvm import StreamSVC, StreamSVR
from streamsvm.service.jobs.fields.descriptions import FIELDS
from streamsvm.service.jobs.fields.texts import parameter

README = Path(streamsvm.__file__).with_name("README.md").read_text()


def test_programs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for program in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        if "Client(" not in program:
            exec(program, names)
    assert names["model"].classes_.tolist() == ["down", "up"]


def test_examples_of_docstrings():
    for module in (streamsvm.classifier, streamsvm.regressor):
        assert doctest.testmod(module).failed == 0


def test_every_parameter_is_told():
    for kind in (StreamSVC, StreamSVR):
        for name in kind().get_params():
            assert re.search(rf"\b{name}\b", kind.__doc__)


@pytest.mark.parametrize("kind", [StreamSVC, StreamSVR])
def test_parameters_have_the_names_of_fields_their_meanings_and_defaults(kind):
    """Defaults differ for max_passes, since most data here are in memory, bias, features (None: a default that can
    change would be shared), and relative_gap, which follows from other parameters. Meanings differ where a parameter
    takes more, or less, than the field."""
    no_fields = {"cv", "solver_options", "input_options", "verbose"}
    other_defaults = {"solver", "bias", "features", "max_passes", "loss", "scoring", "relative_gap"}
    other_meanings = {"C", "loss", "solver", "features", "class_weight", "scoring", "probability", "cache_bytes",
                      "memory_bytes", "relative_gap"}  # fmt: skip
    given = kind().get_params()
    assert given.keys() - no_fields <= FIELDS.keys()
    same = given.keys() - no_fields - other_defaults
    assert {name: given[name] for name in same} == {name: FIELDS[name].default for name in same}
    for name in given.keys() - no_fields - other_meanings:
        head, text = parameter(FIELDS[name], given[name])
        assert f"\n{head}\n    {text[:40]}" in kind.__doc__


def test_parameters_are_attributes_of_their_names():
    given = {name: object() for name in StreamSVC().get_params()}
    assert vars(StreamSVC(**given)) == given
