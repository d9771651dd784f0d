"""Options of `train`, LIBLINEAR's among them, and what is shown meanwhile."""

import argparse
from functools import partial
from pathlib import Path

import pytest
from liblinear import liblinear

from streamsvm.service.commands import train
from streamsvm.service.jobs.fields.descriptions import FIELDS
from streamsvm.service.jobs.fields.spec import JobSpec, parse_spec
from streamsvm.service.models.exports import liblinear_text
from streamsvm.service.terminal.display import duration, progress_line
from streamsvm.service.terminal.spelling import spell_out


def spec_of(line: str) -> JobSpec:
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    return parse_spec({"dataset": "f.svm", **train.given_fields(parser.parse_args(spell_out(line.split())))})


@pytest.mark.parametrize(
    ("liblinear", "ours"),
    [
        ("-s 3 -c 2 -e 0.1 -B 1", "--loss hinge -C 2 --tolerance 0.1 --bias 1"),
        ("-s 1", "--loss squared_hinge"),
        ("-s 7", "--loss logistic"),
        ("-s 12 -p 0.5", "--loss squared_epsilon_insensitive --epsilon 0.5"),
        ("-s 13", "--loss epsilon_insensitive"),
        ("-w1 10 -w-1 0.5", "--class-weight 1=10 --class-weight=-1=0.5"),
        ("-w2.5 3", "--class-weight 2.5=3"),
        ("-B -1", "--bias none"),
        ("-B -1", "--no-bias"),
        ("-B 1", ""),
    ],
)
def test_options_of_liblinear_mean_what_they_mean_there(liblinear, ours):
    assert spec_of(f"{liblinear} f.svm") == spec_of(f"{ours} f.svm")


def test_the_numbers_are_those_of_liblinear():
    """What a model says of its loss is what LIBLINEAR calls that number."""
    for number in train.LIBLINEAR_LOSSES:
        name = liblinear.solver_names(int(number)).name
        assert liblinear_text.LOSSES[name] == train.LIBLINEAR_LOSSES[number]


@pytest.mark.parametrize("words", ["-s 5", "-s x", "-w1", "-w1 x", "-wx 1"])
def test_those_that_cannot_be_meant(words, capsys):
    with pytest.raises(SystemExit) as caught:
        spec_of(f"f.svm {words}")
    assert caught.value.code == 2 and capsys.readouterr().err


@pytest.fixture(scope="module")
def help_text():
    parser = argparse.ArgumentParser(formatter_class=partial(argparse.HelpFormatter, width=1 << 20))
    train.add_arguments(parser)
    return parser.format_help()


@pytest.mark.parametrize("name", sorted(FIELDS.keys() - {"dataset", "labels"}))
def test_every_field_of_a_job_is_an_option_with_its_meaning(name, help_text):
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    assert name in vars(parser.parse_args(["f.svm"]))
    assert train._in_dashes(FIELDS[name].meaning) in help_text


def test_meanings_name_options_as_they_are_spelled(help_text):
    assert "in place of --cache: the cache gets what the rest leaves; none: --cache is the limit" in help_text
    assert "with --kernel rbf: gamma of the kernel; scale: 1 / (features" in help_text


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("--no-refit --folds 2", "refit", False),
        ("--probability none", "probability", None),
        ("--cache 1MiB", "cache_bytes", 1 << 20),
        ("--memory none", "memory_bytes", None),
        ("--machines all", "machines", "all"),
        ("--features scale,unit", "features", ["scale", "unit"]),
        ('--features [{"pairs":{"bits":18}}] --solver dcd', "features", [{"pairs": {"bits": 18}}]),
        ("-w1 2 -w0 3", "class_weight", {"1": 2.0, "0": 3.0}),
        ("-C 1,2", "C", [1.0, 2.0]),
        ("-g 0.5 --kernel rbf", "gamma", 0.5),
        ("--kernel rbf --budget 40", "budget", 40),
        (
            "--solver-option spill=no --solver-option screening=none --solver-option updates_per_row=4",
            "solver_options",
            {"updates_per_row": 4, "screening": None, "spill": False},
        ),
        (
            "--solver avsf --solver-option schedule=accumulators --solver-option schedule=paper",
            "solver_options",
            {"schedule": "paper"},
        ),
    ],
)
def test_values_as_people_write_them(words, field, value):
    assert getattr(spec_of(f"{words} f.svm"), field) == value


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--threads x", "argument --threads: x: it may be whole number, 1 to 1,024, or none"),
        ("--gamma x", "argument -g/--gamma: x: it may be number above 0, up to 1e12, or scale"),
        ("--features [", "argument --features: [ is no JSON"),
        ("--solver-option spill", 'argument --solver-option: spill: it may be object, option -> value: {"updates_per'),
        ("--keep none", "argument --keep: invalid choice: 'none' (choose from 'selected', 'all')"),
    ],
)
def test_a_value_that_cannot_be_meant_is_told_with_those_that_can(words, told, capsys):
    with pytest.raises(SystemExit):
        spec_of(f"{words} f.svm")
    assert told in capsys.readouterr().err


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
    near = progress_line({**progress, "relative_gap_bound": 0.02}, None, 1e-4)
    assert near.startswith("pass 3 block 1/4  M+ - M- 0.0213  relative gap 0.02 of 0.0001  dual 1234.5678")
    assert progress_line({**progress, "relative_gap_bound": None}, 1e-3, 1e-4) == line
    assert progress_line({**progress, "sweep": 7}, 1e-3).startswith("pass 3 sweep 7  M+ - M- 0.0213")
    unknown = {**progress, "blocks": None, "gap": None, "eta_seconds": None, "elapsed_seconds": 0}
    assert progress_line(unknown, None) == "pass 3 block 1/?"


def test_durations():
    assert [duration(seconds) for seconds in (0.4, 59, 61, 3600, 7325)] == ["0 s", "59 s", "1:01", "1:00:00", "2:02:05"]
