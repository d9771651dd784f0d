"""The first column of a table without names is warned of if its values are too many to be classes."""

import numpy as np
import pytest

from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.options import InputOptions
from streamsvm.storage.blocks.profile import read_profile

ROWS = np.random.default_rng(0).integers(0, 200, (1000, 3)) + 0.5


@pytest.mark.parametrize(
    ("head", "options", "is_warned"),
    [("", {}, True), ("", {"label_column": "1"}, False), ("label,a,b\n", {}, False), ("", {"columns": "2,3"}, True)],
)
def test_labels_that_nobody_named(tmp_path, head, options, is_warned):
    text = head + "".join(f"{a:g},{b:g},{c:g}\n" for a, b, c in ROWS)
    ingest([text.encode()], tmp_path / "d", InputOptions("csv", **options), threads=1)
    warned = [each["message"] for each in read_profile(tmp_path / "d").warnings if each["code"] == "many_labels"]
    assert len(warned) == is_warned and all("label_column=-1" in message for message in warned)
