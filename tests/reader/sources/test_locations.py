"""URLs, paths and patterns: how they are parsed and match, and which are refused without being repeated."""

import fnmatch
import glob
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.reader.errors import HINTS, InputError
from streamsvm.reader.sources import files
from streamsvm.reader.sources.files import (
    LocalStore,
    Location,
    Pattern,
    check_installed,
    is_below,
    is_url,
    list_files,
    located,
)
from tests.refusals import refused


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("s3://bucket/a/b.svm", Location("s3", "bucket/a/b.svm")),
        ("S3://bucket/day=*/part-[0-9].svm", Location("s3", "bucket/day=*/part-[0-9].svm")),
        ("gs://b-1.x/k", Location("gs", "b-1.x/k")),
        ("az://c/k#1 2", Location("az", "c/k#1 2")),
        ("file:///a/b", Location("file", "/a/b")),
        ("/a/b", Location("file", "/a/b")),
        ("a/b", Location("file", "a/b")),
    ],
)
def test_what_a_text_names(text, location):
    assert located(text) == location
    assert is_url(text) == ("://" in text)
    assert located(location.url_of(location.path)) == location


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("http://host/a", "source_scheme"),
        ("memory://a/b", "source_scheme"),
        ("s3://AKIASECRET:hunter2@bucket/a", "source_credentials"),
        ("s3://hunter2@bucket/a", "source_credentials"),
        ("s3://bucket:hunter2/a", "source_credentials"),
        ("s3://bucket/a?X-Amz-Signature=hunter2", "source_credentials"),
        ("s3://bucket/", "source_invalid"),
        ("s3:///a", "source_invalid"),
        ("s3://*/a", "source_invalid"),
        ("s3://bucket/a/../b", "source_invalid"),
        ("s3://bucket/./b", "source_invalid"),
        ("s3://bucket/a\nb", "source_invalid"),
        ("file://host/a", "source_invalid"),
        ("file://a", "source_invalid"),
    ],
)
def test_what_is_refused(text, code):
    with pytest.raises(InputError) as caught:
        located(text)
    assert caught.value.code == code and HINTS[code]
    assert "hunter2" not in str(caught.value.problem())


@pytest.mark.parametrize(
    ("url", "prefix", "is_allowed"),
    [
        ("s3://bucket/a", "s3://bucket/", True),
        ("s3://bucket/a", "s3://bucket", True),
        ("s3://bucket/a/b*", "s3://bucket/a/", True),
        ("s3://bucket/a", "s3://bucket/a", True),
        ("s3://bucket/ab", "s3://bucket/a", False),
        ("s3://bucket/*", "s3://bucket/a/", False),
        ("s3://bucket2/a", "s3://bucket", False),
        ("gs://bucket/a", "s3://bucket/", False),
        ("/etc/passwd", "/etc", False),
        ("file:///etc/passwd", "file:///etc", False),
    ],
)
def test_what_lies_below_a_prefix(url, prefix, is_allowed):
    assert is_below(url, prefix) is is_allowed


def test_what_is_not_installed_is_named_with_its_command(monkeypatch):
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    for scheme, extra in (("s3", "s3"), ("gs", "gcs"), ("az", "azure")):
        with refused(InputError, "not_installed") as caught:
            check_installed(located(f"{scheme}://b/k"))
        assert caught.value.hint == f"pip install 'streamsvm[{extra}]'"
    check_installed(located("/a"))


def test_files_of_this_machine(tmp_path):
    for name in ("b2.svm", "b10.svm", "a.svm", "odd[1].svm"):
        (tmp_path / name).write_bytes(b"1\n" * len(name))
    (tmp_path / "b3.svm").mkdir()
    found = list_files([f"file://{tmp_path}/b*.svm", f"{tmp_path}/a.svm", f"{tmp_path}/odd[1].svm"])
    assert [file.url.rpartition("/")[2] for file in found] == ["b10.svm", "b2.svm", "a.svm", "odd[1].svm"]
    assert [file.size for file in found] == [14, 12, 10, 20]
    for name, code in (("none*", "source_empty"), ("none", "source_not_found"), ("b3.svm", "source_is_folder")):
        with refused(InputError, code):
            list_files([f"{tmp_path}/{name}"])
    before = found[2].version
    (tmp_path / "a.svm").write_bytes(b"1\n" * 5)
    assert list_files([f"{tmp_path}/a.svm"])[0].version != before


def test_files_of_a_store(memory):
    for day in (2, 1):
        for part in (10, 9):
            memory.pipe(f"/bucket/day={day}/part-{part}.svm", b"1\n")
    memory.pipe("/bucket/day=1/_SUCCESS", b"")
    found = list_files(["s3://bucket/day=*/part-*.svm"])
    assert [file.url for file in found] == [f"s3://bucket/day={k}/part-{n}.svm" for k in (1, 2) for n in (10, 9)]
    for name, code in (("x*", "source_empty"), ("x", "source_not_found"), ("day=1", "source_is_folder")):
        with refused(InputError, code):
            list_files([f"s3://bucket/{name}"])


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
