"""Compiling ahead: what the bar shows, and a half that fails. That each is compiled once: end_to_end/test_demo.py."""

import io
import sys

import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.processes import kernels
from streamsvm.storage.machine.kernel_sources import stamp_of


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_every_step_is_reported():
    seen = []
    kernels.compile_kernels(lambda done, every: seen.append((done, every)))
    every = sum(kernels.STEPS.values())
    assert seen == [(done, every) for done in range(every + 1)]


def test_a_half_that_fails(monkeypatch):
    monkeypatch.setattr(kernels, "HALVES", {"nothing": None})
    with pytest.raises(ServiceError) as caught:
        kernels.compile_kernels(lambda *_: None)
    assert caught.value.code == "process_died"


def test_the_bar_fills_and_goes():
    stream = Terminal()
    report = kernels.show_bar(stream)
    report(0, 4)
    report(2, 4)
    assert stream.getvalue().rsplit("\r\033[K", 1)[1] == f"compiling kernels, once  [{'#' * 15}{'.' * 15}] 2/4"
    report(4, 4)
    assert stream.getvalue().endswith("\r\033[K")


def test_elsewhere_it_is_a_line():
    stream = io.StringIO()
    report = kernels.show_bar(stream)
    for done in range(5):
        report(done, 4)
    assert stream.getvalue() == "compiling kernels, once\n"


@pytest.fixture(params=["beside the sources", "where numba is told"])
def indexed(request, monkeypatch, tmp_path):
    """A tree with an index of every witness; where they are, by source."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    found, version = {}, f"py{sys.version_info.major}{sys.version_info.minor}"
    for name, kernel in kernels.WITNESSES.items():
        source = tmp_path / name
        folder = source.parent / "__pycache__"
        if request.param == "where numba is told":
            monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
            folder = tmp_path / "cache" / f"{source.parent.name}_1f"
        folder.mkdir(parents=True, exist_ok=True)
        source.parent.mkdir(parents=True, exist_ok=True)
        source.touch()
        found[source] = folder / f"{source.stem}.{kernel}-12.{version}.nbi"
    for index in found.values():
        index.write_bytes(b"before" + stamp_of(tmp_path).encode() + b"after")
    return found


def test_compiled_is_what_has_all_indexes_of_its_sources(indexed, tmp_path):
    assert kernels.are_compiled(tmp_path)
    for source, index in indexed.items():
        before = source.read_bytes()
        source.write_bytes(b"another\n")
        assert not kernels.are_compiled(tmp_path)
        source.write_bytes(before)
        index.rename(index.with_suffix(".gone"))
        assert not kernels.are_compiled(tmp_path)
        index.with_suffix(".gone").rename(index)
    assert kernels.are_compiled(tmp_path)


def test_those_of_this_tree_are_compiled_when_all_have_been():
    kernels.compile_kernels(lambda *_: None)
    assert kernels.are_compiled()


def test_where_numba_cannot_write_nobody_is_made_to_wait(monkeypatch, tmp_path):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert kernels.WITNESSES
    for name in kernels.WITNESSES:
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    assert not kernels.are_compiled(tmp_path)
    monkeypatch.setattr(kernels.os, "access", lambda *_, **__: False)
    assert kernels.are_compiled(tmp_path)
