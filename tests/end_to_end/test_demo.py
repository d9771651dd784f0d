"""`streamsvm demo`: its text, what it shows to a newcomer with few kernels compiled, and what is left of it."""

import os
import pty
import re
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.libsvm import LibsvmParser
from streamsvm.service.commands.demo import TEST, TRAINING, VALUES, Corpus, Ran, compare, streamsvm, write_text
from streamsvm.service.errors import ServiceError
from tests.end_to_end.service import STREAMSVM, is_running, wait_for
from tests.kernels import compiled_in, listening

PATIENCE_SECONDS = 600  # all kernels are compiled
IRIS = """
from sklearn.datasets import load_iris
from streamsvm import StreamSVC
StreamSVC().fit(*load_iris(return_X_y=True))
"""
SAID = "streamsvm: compiling kernels, once, for some 20 s\n"
# For words and offsets of 4 and of 8 bytes; for numbers that callers know when they are compiled.
SEVERAL_TYPES = {"split_bytes", "join_bytes", "row_dots", "score_of", "prefetch_row", "ends_token", "put_hard"}
MET = 4


@pytest.fixture
def place(tmp_path):
    """Environment, and where what is temporary goes."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    return {**os.environ, "TMPDIR": str(temporary), "STREAMSVM_CACHE_DIR": str(temporary)}


def demo(environment, *arguments, **options):
    command = [str(STREAMSVM), "demo", *map(str, arguments)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )


def on_a_terminal(environment, *arguments) -> tuple[int, str]:
    """Run the demo on a terminal, which shows pictures; returns its exit code and what it wrote."""
    master, terminal = pty.openpty()
    with subprocess.Popen(
        [str(STREAMSVM), "demo", *arguments], env=environment, stdout=terminal, stderr=terminal
    ) as process:
        os.close(terminal)
        said = b""
        with suppress(OSError):  # its end
            while piece := os.read(master, 1 << 16):
                said += piece
    os.close(master)
    return process.returncode, said.decode()


def left_in(environment):
    return list(Path(environment["TMPDIR"]).iterdir())


def test_first_runs_say_that_they_compile_each_kernel_once_and_a_demo_shows_it_all(place, tmp_path):
    """Python, a command that reads a table, and a demo, which reads LIBSVM text: each compiles what none before did."""
    environment = {**place, **listening(tmp_path), "PYTHONIOENCODING": "utf-8", "PATH": ""}
    (tmp_path / "rows.csv").write_text("label,a\n" + "1,0.5\n-1,-0.5\n" * 20)
    for command in ([sys.executable, "-c", IRIS], [str(STREAMSVM), "train", "rows.csv"]):
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stderr.count(SAID) == done.stderr.count("compiling") == 1, done.stderr
    code, said = on_a_terminal(environment, "--size", "3MB")
    assert code == 0 and "compiling kernels, once" in said, said
    pids, compiled = compiled_in(tmp_path)
    # Two processes a run compile ahead, and may meet in a small kernel that others call.
    assert len(compiled) - len(set(compiled)) <= MET and len(set(pids)) <= 6
    names = Counter(kernel.partition("(")[0].rpartition(".")[2] for kernel in set(compiled))
    assert {name for name, count in names.items() if count > 1} == SEVERAL_TYPES
    assert names["visit_lanes"] == names["visit_rows"] == names["read_table"] == names["parse_lines"] == 1
    assert "pass 1 block " in said
    assert "There is no comparison with LIBLINEAR: its program is not installed." in said
    assert re.findall(r"C = ([\d.]+): accuracy 0\.", said) == list(VALUES) and said.count(", selected") == 1
    assert re.search(r"by more than \d\.\de-\d\d of it", said)
    (accuracy,) = re.findall(r"accuracy (\d+\.\d+)% \(\d+/2000\)", said)
    assert float(accuracy) > 65
    assert "What to do next:" in said
    assert not left_in(place)


def test_liblinear_runs_once_for_each_C(tmp_path, monkeypatch, capsys):
    program = tmp_path / "train"
    program.write_text('#!/bin/sh\necho "$*" >> runs\nexec sleep 0.2\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("streamsvm.service.commands.demo.LIBLINEAR", ("train",))
    compare(tmp_path, Ran(1.25, 100 << 20), 1 << 20)
    runs = (tmp_path / "runs").read_text().splitlines()
    assert [run.split()[4] for run in runs] == list(VALUES) and {run.split()[5] for run in runs} == {"train.svm"}
    said = capsys.readouterr().out
    assert "StreamSVM: 1.2 s, 100.0 MiB, at most 640MiB" in said
    (peak,) = re.findall(r"LIBLINEAR: \d+\.\d s, (\d+\.\d) KiB of memory", said)
    assert float(peak) > 50
    compare(tmp_path, Ran(1.25, 100 << 20), 5 << 30)
    assert "it would hold some 5.0 GiB" in capsys.readouterr().out


def test_interrupted_it_leaves_nothing(place):
    with demo(place, "--size", "3MB") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("$ streamsvm train "):
                break
        wait_for(lambda: children(process.pid))
        (train,) = children(process.pid)
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(PATIENCE_SECONDS) == 130
    wait_for(lambda: not is_running(train))
    assert not left_in(place)


def test_a_command_that_fails_ends_it(tmp_path):
    with pytest.raises(ServiceError) as caught:
        streamsvm("predict missing.npz missing.svm", tmp_path)
    assert caught.value.code == "demo_failed" and "code 2" in caught.value.message


def children(pid: int) -> list[int]:
    return list(map(int, subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()))


@pytest.fixture(scope="module")
def corpus():
    return Corpus()


@pytest.mark.parametrize("part", [TRAINING, TEST])
def test_rows_are_what_the_reader_takes(corpus, part):
    chunk = corpus.chunk(part, 0)
    (rows,) = LibsvmParser(InputOptions(), InputLimits()).parse_chunks([chunk])
    assert len(rows.indptr) - 1 == chunk.count(b"\n") == 1000
    assert set(rows.label.tolist()) == {-1.0, 1.0}
    squares = np.add.reduceat(rows.values.astype(float) ** 2, rows.indptr[:-1])
    np.testing.assert_allclose(squares, 1.0, rtol=1e-5)


def test_as_much_as_was_asked_for(corpus, tmp_path):
    with (tmp_path / "rows").open("wb") as file:
        rows, values = write_text(file, corpus, 1 << 21)
    text = (tmp_path / "rows").read_bytes()
    assert len(text) >= 1 << 21 and text.startswith(corpus.chunk(TRAINING, 0))
    assert (rows, values) == (text.count(b"\n"), text.count(b":"))
