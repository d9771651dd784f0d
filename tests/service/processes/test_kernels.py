"""Compiling ahead: what the bar shows, and a step that fails. That each is compiled once: end_to_end/test_demo.py."""

import io
import sys

import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.processes import kernels
from streamsvm.storage.machine import compiling
from streamsvm.storage.machine.compiling import stamp_of
from tests.refusals import refused


@pytest.fixture
def tree(tmp_path):
    """A tree with a module of kernels."""
    (tmp_path / "storage/rows").mkdir(parents=True)
    (tmp_path / "storage/rows/csr.py").touch()
    return tmp_path


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_every_step_is_reported_and_what_was_compiled_is_found(monkeypatch, tree):
    seen = []
    kernels.compile_kernels(lambda *done: seen.append(done), kernels.STEPS)
    every = len(kernels.STEPS)
    assert seen == [(done, every) for done in range(every + 1)]
    assert not kernels.missing(*kernels.STEPS)
    assert kernels.compile_kernels(seen.append, []) == 0.0 and len(seen) == every + 1
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tree))
    assert kernels.missing("auto", "one", tree=tree) == [*kernels.ORDINARY, "one"]
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert not kernels.missing("one", tree=tree)


def test_a_step_that_fails(monkeypatch):
    monkeypatch.setattr(kernels, "STEPS", {str(number): None for number in range(200)})
    with refused(ServiceError, "process_died"):
        kernels.compile_kernels(lambda *_: None, ["199"])


def test_the_bar_fills_and_goes_and_elsewhere_it_is_a_line(capsys):
    stream = Terminal()
    report = kernels.show_bar(stream)
    report(0, 4)
    report(2, 4)
    assert stream.getvalue().rsplit("\r\033[K", 1)[1] == f"compiling kernels, once  [{'#' * 15}{'.' * 15}] 2/4"
    report(4, 4)
    assert stream.getvalue().endswith("\r\033[K")
    compiling.say_compiling.cache_clear()
    for report in (kernels.show_bar(io.StringIO()), kernels.show_bar(io.StringIO())):
        for done in range(5):
            report(done, 4)
    assert capsys.readouterr().err == "streamsvm: compiling kernels, once, for some 20 s\n"


@pytest.fixture(params=["beside the sources", "where numba is told"])
def indexed(request, monkeypatch, tree):
    """A tree with an index of every step's last kernel; where they are, by step."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    found, version = {}, f"py{sys.version_info.major}{sys.version_info.minor}"
    for step, (name, kernel) in kernels.STEPS.items():
        source = tree / name
        folder = source.parent / "__pycache__"
        if request.param == "where numba is told":
            monkeypatch.setenv("NUMBA_CACHE_DIR", str(tree / "cache"))
            folder = tree / "cache" / f"{source.parent.name}_1f"
        folder.mkdir(parents=True, exist_ok=True)
        source.parent.mkdir(parents=True, exist_ok=True)
        source.touch()
        found[step] = folder / f"{source.stem}.{kernel}-12.{version}.nbi"
    for index in found.values():
        index.write_bytes(b"before" + stamp_of(tree).encode() + b"after")
    return found


def test_compiled_is_what_has_an_index_of_its_sources(indexed, tree):
    assert not kernels.missing(*indexed, tree=tree)
    source = tree / "storage/rows/csr.py"
    source.write_bytes(b"another\n")
    assert {*kernels.missing(*indexed, tree=tree)} == {*indexed}
    source.write_bytes(b"")
    for step, index in indexed.items():
        index.rename(index.with_suffix(".gone"))
        assert {*kernels.missing(*indexed, tree=tree)} == {step}
        index.with_suffix(".gone").rename(index)


def test_where_numba_cannot_write_nobody_is_made_to_wait(monkeypatch, tree):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    for name, *_ in kernels.STEPS.values():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(kernels.os, "access", lambda *_, **__: False)
    assert not kernels.missing(*kernels.STEPS, tree=tree)
    assert {*kernels.missing(*kernels.STEPS, tree=tree, or_unknown=True)} == {*kernels.STEPS}
