"""Options of `train`, LIBLINEAR's among them, and what is shown meanwhile."""

import argparse
from pathlib import Path

import pytest
from liblinear import liblinear

from streamsvm.service.commands import liblinear_options, train
from streamsvm.service.commands.display import duration, progress_line
from streamsvm.service.commands.spelling import spell_out
from streamsvm.service.jobs.fields.spec import JobSpec, parse_spec
from streamsvm.service.models.exports import liblinear_text


def spec_of(line: str) -> JobSpec:
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    return parse_spec(train._fields(parser.parse_args(spell_out(line.split()))))


@pytest.mark.parametrize(
    ("liblinear", "ours"),
    [
        ("-s 3 -c 2 -e 0.1 -B 1", "--loss hinge -C 2 --tolerance 0.1 --bias 1"),
        ("-s 1", "--loss squared_hinge"),
        ("-s 7", "--loss logistic --solver dcd"),
        ("-s 12 -p 0.5", "--loss squared_epsilon_insensitive --epsilon 0.5 --solver dcd"),
        ("-s 13", "--loss epsilon_insensitive --solver dcd"),
        ("-w1 10 -w-1 0.5", "--class-weight 1=10 --class-weight=-1=0.5"),
        ("-w2.5 3", "--class-weight 2.5=3"),
        ("-B -1", ""),
    ],
)
def test_options_of_liblinear_mean_what_they_mean_there(liblinear, ours):
    assert spec_of(f"{liblinear} f.svm") == spec_of(f"{ours} f.svm")


def test_the_numbers_are_those_of_liblinear():
    """What a model says of its loss is what LIBLINEAR calls that number."""
    for number in liblinear_options._LOSS:
        name = liblinear.solver_names(int(number)).name
        assert liblinear_text.LOSSES[name] == liblinear_options._LOSS[number]


@pytest.mark.parametrize("words", ["-s 5", "-s x", "-w1", "-w1 x", "-wx 1"])
def test_those_that_cannot_be_meant(words, capsys):
    with pytest.raises(SystemExit) as caught:
        spec_of(f"f.svm {words}")
    assert caught.value.code == 2 and capsys.readouterr().err


@pytest.mark.parametrize("field", sorted(JobSpec.model_fields.keys() - {"dataset", "labels"}))
def test_every_field_of_a_job_is_an_option(field):
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    assert field in vars(parser.parse_args(["f.svm"]))


@pytest.mark.parametrize(
    ("file", "name"),
    [("train.svm.zst", "train"), ("/a/B C.svm", "b-c"), ("_x_.csv", "x"), ("Ü.svm", "data"), ("a" * 99, "a" * 64)],
)
def test_a_dataset_is_called_as_its_file(file, name):
    assert train.dataset_name(Path(file)) == name


def test_a_progress_line_says_how_far_it_is():
    progress = {"pass": 3, "block": 1, "blocks": 4, "sweep": 0, "gap": 0.0213, "dual_objective": 1234.5678,
                "rows_streamed": 50_000, "elapsed_seconds": 2.0, "eta_seconds": 75.0}  # fmt: skip
    line = progress_line(progress, 1e-3)
    assert line == "pass 3 block 1/4  M+ - M- 0.0213 of 0.001  dual 1234.5678  25,000 rows/s  1:15 left"
    assert progress_line({**progress, "sweep": 7}, 1e-3).startswith("pass 3 sweep 7  M+ - M- 0.0213")
    unknown = {**progress, "blocks": None, "gap": None, "eta_seconds": None, "elapsed_seconds": 0}
    assert progress_line(unknown, None) == "pass 3 block 1/?"


def test_durations():
    assert [duration(seconds) for seconds in (0.4, 59, 61, 3600, 7325)] == ["0 s", "59 s", "1:01", "1:00:00", "2:02:05"]
