"""`streamsvm demo`, as a newcomer runs it: with nothing compiled, on a file, interrupted."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
import zstandard

from tests.end_to_end.service import STREAMSVM, is_running, wait_for

PATIENCE_SECONDS = 600  # all kernels are compiled

# Imported by every process of Python: writes down which of our kernels are compiled, by module, name and types. What
# LIBLINEAR's package compiles for itself is its own affair.
_LISTENER = """
import os
from numba.core import event

class Listener(event.Listener):
    def on_start(self, event):
        kernel, types = event.data["dispatcher"].py_func, event.data["args"]
        if kernel.__module__.split(".")[0] == "streamsvm":
            with open(os.environ["COMPILED"], "a") as file:
                file.write(f"{os.getpid()} {kernel.__module__}.{kernel.__name__}{types}\\n")

    def on_end(self, event):
        pass

event.register("numba:compile", Listener())
"""


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


def left_in(environment):
    return list(Path(environment["TMPDIR"]).iterdir())


def test_a_first_run_compiles_each_kernel_once_and_shows_it_all(place, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(_LISTENER)
    compiled = tmp_path / "compiled"
    path = os.pathsep.join(filter(None, (str(tmp_path / "site"), os.environ.get("PYTHONPATH"))))
    environment = {
        **place, "PYTHONPATH": path, "COMPILED": str(compiled), "NUMBA_CACHE_DIR": str(tmp_path / "kernels"),
        "PYTHONIOENCODING": "utf-8",
    }  # fmt: skip
    with demo(environment, "--size", "3MB") as process:
        said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, said
    pids, kernels = zip(*(line.split(" ", 1) for line in compiled.read_text().splitlines()), strict=True)
    assert any("visit_rows" in kernel for kernel in kernels) and any("parse_lines" in kernel for kernel in kernels)
    assert len(set(kernels)) == len(kernels)
    # Two processes compile ahead. The thread of the service that loads predictions adds the kernels of tables, which
    # the demo does not use; whatever else came later found all of it.
    of_tables = {pid for pid, kernel in zip(pids, kernels, strict=True) if ".parsers.tables." in kernel}
    assert len(set(pids) - of_tables) == 2 and len(of_tables) <= 1
    assert "█" in said and "sweep 1 to " in said and "tolerance" in said
    assert re.search(r"by more than \d\.\de-\d\d of it", said)
    assert re.search(r"/predict .*: label -?1\n", said)
    assert "LIBLINEAR  " in said
    assert "What to do next:" in said
    assert not left_in(place)


def test_a_file_of_ones_own(place, tmp_path, text):
    (tmp_path / "own.svm.zst").write_bytes(zstandard.compress(text))
    with demo(place, "--data", tmp_path / "own.svm.zst") as process:
        said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, said
    assert "nothing was held out" in said
    assert not left_in(place)


def test_what_is_no_libsvm_text(place, tmp_path):
    (tmp_path / "bad.svm").write_text("1 1:1\n-1 what\n")
    with demo(place, "--data", tmp_path / "bad.svm") as process:
        said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 3, said
    assert "streamsvm: " in said.splitlines()[-1] or "streamsvm: " in said.splitlines()[-2]
    assert not left_in(place)


def test_interrupted_it_leaves_nothing(place):
    with demo(place, "--size", "3MB") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("PUT "):
                break
        service = int(subprocess.check_output(["pgrep", "-P", str(process.pid)], text=True).split()[0])
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(PATIENCE_SECONDS) == 130
    wait_for(lambda: not is_running(service))
    assert not left_in(place)
