"""The first column of a table without names is warned of if its values are too many to be classes."""

import numpy as np
import pytest

from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.options import InputOptions
from streamsvm.storage.blocks.manifest import read_profile

ROWS = np.random.default_rng(0).integers(0, 200, (1000, 3)) + 0.5


@pytest.mark.parametrize(
    ("first", "last", "options", "is_warned"),
    [
        (30, 2, {}, True),
        (30, 2, {"label_column": "-1"}, False),
        (30, 2, {"label_column": "1"}, False),
        (2, 2, {}, False),  # labels as they should be, and a column of two values
        (10, 1, {}, False),
        (30, 25, {}, False),
    ],
)
def test_labels_may_be_in_the_last_column(tmp_path, first, last, options, is_warned):
    text = "".join(f"{k % first},{k}.5,{k % last}\n" for k in range(300))
    ingest([text.encode()], tmp_path / "d", InputOptions("csv", **options), threads=1)
    warned = [each["message"] for each in read_profile(tmp_path / "d").warnings if each["code"] == "labels_first"]
    assert [f"has {first} values, the last has {last}" in message for message in warned] == [True] * is_warned


@pytest.mark.parametrize(("first", "is_warned"), [("012", True), ("ab", False)])
def test_words_in_the_last_column_may_be_labels(tmp_path, first, is_warned):
    text = "".join(f"{first[k % len(first)]},{k}.5,{['normal', 'smurf', 'back'][k % 3]}\n" for k in range(300))
    ingest([text.encode()], tmp_path / "d", InputOptions("csv", categorical="all"), threads=1)
    assert ("labels_first" in [each["code"] for each in read_profile(tmp_path / "d").warnings]) == is_warned


@pytest.mark.parametrize(
    ("head", "options", "is_warned"),
    [("", {}, True), ("", {"label_column": "1"}, False), ("label,a,b\n", {}, False), ("", {"columns": "2,3"}, True)],
)
def test_labels_that_nobody_named(tmp_path, head, options, is_warned):
    text = head + "".join(f"{a:g},{b:g},{c:g}\n" for a, b, c in ROWS)
    ingest([text.encode()], tmp_path / "d", InputOptions("csv", **options), threads=1)
    warned = [each["message"] for each in read_profile(tmp_path / "d").warnings if each["code"] == "many_labels"]
    assert len(warned) == is_warned and all("label_column=-1" in message for message in warned)


@pytest.mark.parametrize(("words", "named"), [(("yes", "NA", "no"), "'NA'"), (("yes", "no", "maybe"), None)])
def test_labels_that_look_like_missing_values(tmp_path, words, named):
    text = "a,label\n" + "".join(f"{k},{words[k % 3]}\n" for k in range(30))
    manifest = ingest([text.encode()], tmp_path / "d", InputOptions("csv"), threads=1)
    warned = [each["message"] for each in read_profile(tmp_path / "d").warnings if each["code"] == "labels_missing"]
    assert len(manifest.labels) == 3 and [named in message for message in warned] == [True] * (named is not None)
