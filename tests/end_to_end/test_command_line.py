"""The command line: what it writes, how it ends, and that it leaves nothing."""

import json
import os
import re
import shutil
import signal
import subprocess

import numpy as np
import pytest
import zstandard

from tests.contracts.problems import libsvm_text
from tests.end_to_end.service import Processes, wait_for

pytestmark = pytest.mark.usefixtures("nothing_is_left")
QUICK = ("--cache", "1MiB", "--tolerance", "0.01")
ENDLESS = ("--cache", "128KiB", "--tolerance", "none", "--max-passes", "1000000")


@pytest.fixture(scope="module")
def file(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("data") / "train.svm"
    path.write_bytes(text)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory, file):
    """A converged model."""
    directory = tmp_path_factory.mktemp("model")
    (directory / "temporary").mkdir()
    processes = Processes(directory / "temporary")
    done = processes.run("train", file, *QUICK, "-o", directory / "a.model", text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "converged (tolerance)" in done.stderr and str(directory / "a.model") in done.stderr
    return directory / "a.model"


@pytest.mark.parametrize("pace", ["adaptive", "fixed"])
def test_classes_that_are_strings_are_trained_on_as_numbers_are(run_here, tmp_path, pace):
    """Whether a job follows the file or waits for it. The larger name is the positive class."""
    rng = np.random.default_rng(0)
    spam, x = rng.integers(0, 2, 400), rng.standard_normal((400, 3))
    trained = {}
    for names in (("ham", "spam"), ("0", "1")):
        rows = [f"{names[k]},{','.join(map(repr, (row + k).tolist()))}\n" for k, row in zip(spam, x, strict=True)]
        (tmp_path / "train.csv").write_text("kind,a,b,c\n" + "".join(rows))
        weight, output = f"{names[1]}=2", tmp_path / f"{names[1]}.npz"
        settings = ("-C", "0.01", "--pace", pace, "--label-column", "kind")
        settings += ("--class-weight", weight) if pace == "fixed" else ("--seed", "0")
        done = run_here("train", tmp_path / "train.csv", *QUICK, *settings, "-o", output)
        assert done.returncode == 0, done.stderr
        trained[names[1]] = dict(np.load(output))
    np.testing.assert_allclose(trained["spam"]["w"], trained["1"]["w"], atol=0 if pace == "fixed" else 0.05)
    assert trained["spam"]["labels"].tolist() == ["spam", "ham"]
    assert trained["1"]["labels"].tolist() == [1.0, 0.0]


def test_a_file_that_nobody_named_has_a_format_with_a_place_for_strings(run_here, tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("kind,a\n" + "ham,1\nspam,2\n" * 9)
    monkeypatch.chdir(tmp_path)
    done = run_here("train", "a.csv", "--label-column", "kind")
    assert done.returncode == 0 and "written as npz" in done.stderr and "wrote a.csv.npz" in done.stderr
    assert run_here("predict", "a.csv.npz", "a.csv").stdout.split() == ["ham", "spam"] * 9


@pytest.mark.parametrize(
    ("content", "options", "name", "code"),
    [
        ("0.5 1:1\n-0.5 1:2\n", (), "a.model", "not_exportable"),
        ("3000000000 1:1\n1 1:2\n", ("--pace=fixed",), "a.model", "not_exportable"),
        ("1 1:1\n-1 1:2\n", ("--bias=-1",), "a.model", "not_exportable"),
        ("1 1:1\n-1 1:2\n", ("--features=pairs",), "a.onnx", "not_exportable"),
        ("ham,1\nspam,2\n", ("--format=csv", "--header=no"), "a.model", "not_exportable"),
        ("ham,1\nspam,2\n", ("--format=csv", "--header=no", "--pace=fixed"), "a.model", "not_exportable"),
        ("1 1:1\n2 1:2\n3 1:3\n", ("--solver=bsca",), "a.model", "not_exportable"),
        ("this is not even read", (), "a.xyz", "unknown_format"),
    ],
)
def test_what_the_file_cannot_say_is_refused_before_training(run_here, tmp_path, content, options, name, code):
    (tmp_path / "rows").write_text(content * 20)
    done = run_here("train", tmp_path / "rows", *options, "-o", tmp_path / name)
    assert done.returncode == 2 and f"[{code}]" in done.stderr and "pass 1" not in done.stderr
    assert ".npz" in done.stderr and not (tmp_path / name).exists()


def test_a_directory_in_place_of_the_file_is_refused_before_training(run_here, tmp_path):
    (tmp_path / "rows").write_text("1 1:1\n-1 1:2\n" * 20)
    done = run_here("train", tmp_path / "rows", "-o", tmp_path)
    assert done.returncode and "is a directory" in done.stderr and "pass 1" not in done.stderr


def test_what_the_file_leaves_out_is_told_before_training(run_here, tmp_path):
    (tmp_path / "rows").write_text("1 0:1\n-1 0:2 3:1\n" * 20)
    command = ("train", tmp_path / "rows", "--cache", "128KiB", "--probability", "sigmoid", "-o")
    done = run_here(*command, tmp_path / "a.model")
    said, _, rest = done.stderr.partition("pass 1")
    assert rest and "add one to the indices" in said and "no place for probabilities" in said
    assert "indices" not in run_here(*command, tmp_path / "a.npz").stderr


def test_weights_of_two_are_twice_the_C(run_here, tmp_path, problem):
    """Also of rows that are trained on while they are read."""
    X, y = problem
    plain, output = libsvm_text(X, y), tmp_path / "a.npz"
    (tmp_path / "weighted").write_bytes(re.sub(rb"(?m)^(\S+)", rb"\1:2", plain))
    (tmp_path / "plain").write_bytes(plain)
    found = []
    for file, C in (("weighted", 0.5), ("plain", 1.0)):
        exact = ("--cache", "128KiB", "-e", "none", "--relative-gap", "1e-8", "--max-passes", "10000")
        done = run_here("train", tmp_path / file, "-C", C, *exact, "-o", output)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(str(np.load(output)["about"]))["certificate"]["primal_objective"])
    assert found[0] == pytest.approx(found[1], rel=1e-7)


def test_predictions_go_into_a_file_and_come_from_standard_input(processes, model, text, tmp_path):
    packed = zstandard.ZstdCompressor().compress(text)
    done = processes.run("predict", model, "-", "-o", tmp_path / "labels", input=packed)
    assert (done.returncode, done.stdout) == (0, b"")
    labels = (tmp_path / "labels").read_text().split()
    assert len(labels) == 3000 and set(labels) == {"1", "-1"}


def test_a_reader_of_the_output_may_leave_early(processes, model, tmp_path):
    rows = tmp_path / "many.svm"
    rows.write_bytes(b"1 1:1\n" * 200_000)
    child = processes.start("predict", model, rows, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout.readline() in (b"1\n", b"-1\n")
    child.stdout.close()
    assert (child.stderr.read(), child.wait(30)) == (b"", 0)
    child.stderr.close()


def test_json_lines_parse(processes, text, tmp_path):
    output = tmp_path / "m.npz"
    options = ("--json", "--bias", 1, "--class-weight", "1=2", "--loss", "squared_hinge", "--relative-gap", 0.1)
    done = processes.run("train", "-", *options, "-o", output, input=text)
    assert (done.returncode, done.stderr) == (0, b"")
    *passes, last = [json.loads(line, parse_constant=pytest.fail) for line in done.stdout.splitlines()]
    assert [record["pass"] for record in passes] == list(range(1, len(passes) + 1))
    result = last["result"]
    assert result["passes"] == len(passes) and result["model"] == str(output)
    assert result["converged"] and result["certificate"]["relative_duality_gap"] >= 0
    assert (result["spec"]["bias"], result["spec"]["class_weight"]) == (1.0, {"1": 2.0})
    assert np.load(output)["bias"] == 1.0


def test_not_converged_is_an_exit_code_and_a_model_all_the_same(run_here, file, tmp_path):
    done = run_here("train", file, "--tolerance", "1e-30", "--max-passes", 1, "-o", tmp_path / "m")
    assert done.returncode == 4
    assert "not converged (max_passes)" in done.stderr and "pass 1: M+ - M-" in done.stderr
    assert (tmp_path / "m").read_bytes().startswith(b"solver_type")


@pytest.mark.parametrize("command", ["train", "predict"])
def test_a_bad_file_is_named_by_line(run_here, model, tmp_path, command):
    bad, output = tmp_path / "bad.svm", tmp_path / "output"
    bad.write_bytes(b"1 1:1\n-1 2:1\n1 3:x\n")
    arguments = {"train": (bad,), "predict": (model, bad)}[command]
    done = run_here(command, *arguments, "-o", output)
    assert done.returncode == 3
    assert "line 3" in done.stderr and "[bad_number]" in done.stderr and "Traceback" not in done.stderr
    assert command == "predict" or not output.exists()


USAGE_ERRORS = {
    "no command": (),
    "unknown command": ("tain",),
    "unknown option": ("train", "FILE", "--colour", "red"),
    "range": ("train", "FILE", "-C", "0"),
    "label": ("train", "FILE", "--class-weight", "2=2", "-o", "OUT"),
    "job elsewhere": ("train", "FILE", "--warm-start", f"job_{'0' * 26}", "-o", "OUT"),
    "small cache": ("train", "FILE", "--cache", "1", "-o", "OUT"),
    "no file": ("train", "NO/FILE", "-o", "OUT"),
    "directory": ("train", "/", "-o", "OUT"),
    "no place for the model": ("train", "FILE", "-o", "OUT/no/such/m"),
    "no model": ("predict", "NO/FILE", "FILE"),
}


@pytest.mark.parametrize("case", USAGE_ERRORS)
def test_usage_errors(run_here, processes, file, tmp_path, case):
    names = {"FILE": str(file), "OUT": str(tmp_path / "out")}
    arguments = [names.get(word, word.replace("OUT/", f"{tmp_path}/")) for word in USAGE_ERRORS[case]]
    done = processes.run(*arguments, text=True, cwd=tmp_path) if case == "no file" else run_here(*arguments)
    assert done.returncode == 2, done.stderr
    assert done.stderr and "Traceback" not in done.stderr and done.stdout == ""
    assert not (tmp_path / "out").exists()


def test_a_model_file_that_is_none(run_here, file):
    done = run_here("predict", file, file)
    assert done.returncode == 3 and "Traceback" not in done.stderr


def training(processes, file, output, *options):
    """The command, in its second pass and with no end in sight."""
    child = processes.start("train", file, *ENDLESS, *options, "-o", output, stderr=subprocess.PIPE)
    assert child.stderr.readline().startswith(b"reading ")
    line = child.stderr.readline()
    if b"[newton_given_up]" in line:  # what is asked for is beyond rounding
        line = child.stderr.readline()
    assert line.startswith(b"pass 1")
    return child


def test_an_interrupt_leaves_the_model_so_far(processes, run_here, file, tmp_path):
    """Ctrl-C reaches all processes of the terminal's group."""
    output = tmp_path / "m"
    child = training(processes, file, output)
    os.killpg(child.pid, signal.SIGINT)
    rest, code = child.stderr.read(), child.wait(10)
    child.stderr.close()
    assert code == 4, rest
    assert b"stopping after this pass" in rest and b"not converged (stopped)" in rest
    done = run_here("predict", output, file)
    assert done.returncode == 0 and float(re.search(r"accuracy ([0-9.]+)%", done.stderr)[1]) > 80


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_second_interrupt_leaves_nothing(processes, file, tmp_path, number):
    """Nor does a first signal of another kind."""
    output = tmp_path / "m"
    child = training(processes, file, output)
    assert len(processes.alive("streamsvm.reader.stream.process")) == 1
    os.kill(processes.one("streamsvm.trainer.process"), signal.SIGSTOP)  # its pass has no end
    if number == signal.SIGINT:
        child.send_signal(number)
        while not (line := child.stderr.readline()).startswith(b"stopping after this pass"):
            assert line, "the command has ended"
    child.send_signal(number)
    rest, code = child.stderr.read(), child.wait(10)
    child.stderr.close()
    assert code == 130 and b"Traceback" not in rest
    assert not output.exists()


def test_a_kill_takes_the_children_along(processes, file, tmp_path):
    child = training(processes, file, tmp_path / "m")
    child.kill()
    child.wait()
    child.stderr.close()
    wait_for(lambda: not processes.alive(), 2)
    for left in processes.temporary.iterdir():
        shutil.rmtree(left)  # what was killed cannot tidy up


def test_a_dead_process_ends_the_command(processes, file, tmp_path):
    child = training(processes, file, tmp_path / "m")
    os.kill(processes.one("streamsvm.trainer.process"), signal.SIGKILL)
    rest, code = child.stderr.read(), child.wait(5)
    child.stderr.close()
    assert code == 5
    assert b"signal 9 [process_died]" in rest and b"Traceback" not in rest
