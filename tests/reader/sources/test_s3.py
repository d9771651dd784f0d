"""The library for S3 behaves as the code expects: versions of files, faults, connections that break."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import s3 as stores

ROOT = Path(__file__).resolve().parents[3]
# Each run is a process of its own, since the library holds connections and credentials as long as the process lives.
_PROGRAM = """
import sys, boto3
from streamsvm.reader.errors import InputError
from streamsvm.reader.sources.fetch import read_range
from streamsvm.reader.sources.files import list_files

url, what = sys.argv[1:]
try:
    (file,) = list_files([url])
    pieces = read_range(file, threads=2, piece_bytes=1 << 16)
    size = len(next(pieces))
    if what != "nothing":
        change = {"changed": ("put_object", {"Body": b"x" * file.size}), "removed": ("delete_object", {})}
        name, more = change[what]
        getattr(boto3.client("s3"), name)(Bucket="bucket", Key="a", **more)
    size += sum(map(len, pieces))
    print(file.size == size, end="")
except InputError as error:
    print(error.code, end="")
"""


def run(name, what="nothing"):
    command = [sys.executable, "-c", _PROGRAM, f"s3://bucket/{name}", what]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["a", "a*"])
@pytest.mark.parametrize(
    ("what", "expected"), [("nothing", "True"), ("changed", "source_changed"), ("removed", "source_changed")]
)
def test_a_file_is_held_to_what_it_was(s3, name, what, expected):
    """A file has the same version in a listing and by itself."""
    s3.put("bucket/a", b"1 1:1\n" * 100_000)
    done = run(name, what)
    assert (done.stdout, done.stderr) == (expected, "")


def test_answers_that_end_too_early_are_asked_for_again(s3, monkeypatch):
    s3.put("bucket/a", b"1 1:1\n" * 50_000)
    with stores.breaking(s3, after_bytes=10_000, times=5) as seen:
        monkeypatch.setenv("AWS_ENDPOINT_URL", seen[0])
        assert run("a").stdout == "True"
    assert len(seen) == 1 + 5 + 5  # ranges of 64 KiB
