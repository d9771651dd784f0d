"""Patterns of keys: within a folder they match as fnmatch does, and without backtracking."""

import fnmatch
import glob
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.reader.sources.files import LocalStore
from streamsvm.reader.sources.locations import Pattern


@pytest.mark.parametrize(
    ("pattern", "path", "is_one"),
    [
        ("b/*.svm", "b/a.svm", True),
        ("b/*.svm", "b/c/a.svm", False),
        ("b/day=*/part-[0-9].svm", "b/day=1/part-3.svm", True),
        ("b/day=*/part-[!0-9].svm", "b/day=1/part-3.svm", False),
        ("b/**/x", "b/x", True),
        ("b/**/x", "b/c/d/x", True),
        ("b/**/d/**/x", "b/c/d/d/e/x", True),
        ("b/**/d/**/x", "b/c/e/x", False),
        ("b/**", "b/c/d", True),
        ("b/*", "b/", False),
        ("b/[x", "b/[x", True),
        ("b/[]]", "b/]", True),
        ("b/[z-a]", "b/z", False),
        ("b/x[]*", "b/x[]y", True),
        ("b/[!]--]", "b/]", True),
        ("b/[a---]", "b/-", True),
        ("b/[!b-a]", "b/-", True),
    ],
)
def test_folders(pattern, path, is_one):
    assert Pattern(pattern).matches(path) == is_one


@given(st.text("ab*[]!-", max_size=8), st.text("ab-]", min_size=1, max_size=8))
@settings(max_examples=1000, deadline=None)
def test_within_a_folder_as_fnmatch(pattern, name):
    assert Pattern(pattern).matches(name) == fnmatch.fnmatchcase(name, pattern) or not pattern


@pytest.mark.parametrize(
    ("pattern", "path"),
    [("*a" * 25 + "b", "a" * 1000), ("*" + "a" * 400 + "b", "a" * 1000), ("**/a/" * 25 + "b", "a/" * 500 + "c")],
)
def test_no_pattern_takes_long(pattern, path):
    found, began = Pattern(pattern), time.process_time()
    assert not found.matches(path)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("pattern", ["**/**/**/f", "a/**/**/f", "**", "**/b/**", "*/f"])
def test_each_file_is_found_once_as_glob_does(tmp_path, monkeypatch, pattern):
    for name in ("f", "a/f", "a/b/f", "a/b/g", "a/.c/f", "a/.f"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    monkeypatch.chdir(tmp_path)
    for text in (pattern, f"{tmp_path}/{pattern}"):
        files = {name for name in glob.glob(text, recursive=True) if Path(name).is_file()}  # noqa: PTH207
        assert sorted(name for name, *_ in LocalStore().find(text)) == sorted(files) != []


def test_a_deep_folder_is_walked_once(tmp_path):
    tmp_path.joinpath(*"d" * 24).mkdir(parents=True)
    began = time.monotonic()
    assert not LocalStore().find(f"{tmp_path}/{'**/' * 8}f")
    assert time.monotonic() - began < 5
