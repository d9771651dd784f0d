"""The demo's LIBLINEAR, replaced by scripts: its output, and its failures."""

import sys

import pytest

from streamsvm.service.demo import liblinear


@pytest.fixture
def played(tmp_path):
    def play(script):
        (tmp_path / "train.py").write_text(script)
        starts = [sys.executable, str(tmp_path / "train.py")]
        return liblinear.measure(starts, tmp_path / "rows", 2.0, 1e-3, tmp_path / "model")

    return play


def test_what_it_found(played, tmp_path):
    found = played(
        "import sys, time\n"
        f"assert sys.argv[1:] == '-s 3 -c 2 -e 0.001 -B 1 {tmp_path}/rows {tmp_path}/model'.split()\n"
        "room = b'x' * 50_000_000\ntime.sleep(0.3)\n"
        "print('optimization finished\\nObjective value = -12.5\\nnSV = 3')\n"
    )
    assert found.objective == 12.5
    assert found.seconds >= 0.3
    assert found.peak_bytes > 50_000_000


def test_what_it_cannot_read(played):
    assert played("import sys; print('Wrong input format at line 1'); sys.exit(1)") == (
        "it could not: Wrong input format at line 1"
    )


def test_several_problems(played):
    assert "two classes" in played("print('Objective value = -1\\nObjective value = -2')")


def test_a_limit(played, monkeypatch):
    monkeypatch.setattr(liblinear, "MOST_SECONDS", 0.2)
    assert "not done" in played("import time; time.sleep(60)")


def test_where_it_is_not_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(liblinear, "find_spec", lambda _: None)
    assert liblinear.command() is None
    (tmp_path / "liblinear-train").write_text("")
    (tmp_path / "liblinear-train").chmod(0o755)
    assert liblinear.command() == [str(tmp_path / "liblinear-train")]
