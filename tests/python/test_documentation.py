"""The programs of the package's README run as they stand, and so do the examples of the docstrings."""

import doctest
import re
from pathlib import Path

import streamsvm.classifier
import streamsvm.regressor
from streamsvm import StreamSVC, StreamSVR
from streamsvm.service.jobs.fields.spec import JobSpec

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


def test_parameters_have_the_names_of_fields_and_their_defaults():
    """But for max_passes, which here is of data that mostly are in memory, bias, features (None, since a default that
    can change would be shared), and what a job has no field for."""
    own = {"cv", "solver_options", "input_options", "verbose"}
    for kind in (StreamSVC, StreamSVR):
        given = kind().get_params()
        assert own | set(given) == own | (set(given) & set(JobSpec.model_fields))
        same = set(given) - own - {"solver", "bias", "features", "max_passes", "loss", "select_by"}
        assert {name: given[name] for name in same} == {name: JobSpec.model_fields[name].default for name in same}
