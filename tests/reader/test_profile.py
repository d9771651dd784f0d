"""A dataset's profile equals what a slow count finds."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsvm.reader.ingest.append import append_rows
from streamsvm.reader.ingest.reading import MOST_LISTED, RowLengths
from streamsvm.reader.ingest.renumber import MOST_LISTED as MOST_FEATURES
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.storage.blocks.manifest import read_profile
from streamsvm.storage.rows.csr import LARGE_W

LENGTHS = st.lists(st.lists(st.one_of(st.integers(0, 9), st.integers(0, 1 << 31)), min_size=1, max_size=30), min_size=1)


@given(LENGTHS)
def test_lengths_of_rows_however_they_come(batches):
    found = RowLengths()
    for batch in batches:
        found.add(np.array(batch, np.int64))
    lengths = [length for batch in batches for length in batch]
    ranked = sorted(enumerate(lengths, 1), key=lambda row: (-row[1], row[0]))
    assert found.longest == ranked[:MOST_LISTED]
    assert (found.rows, found.most) == (len(lengths), max(lengths))
    bins = Counter(length.bit_length() for length in lengths)
    assert found.counts == tuple(bins[k] for k in range(max(bins) + 1))


def text_of(rows):
    return "".join(f"{k % 2} {' '.join(f'{j}:1' for j in row)}\n" for k, row in enumerate(rows)).encode()


@pytest.mark.parametrize("step", [1, LARGE_W // 40])
@pytest.mark.parametrize("index_base", [0, 1])
def test_features_are_called_as_the_input_calls_them(tmp_path, step, index_base):
    """The dataset renumbers its features; the last ones are the most frequent."""
    rng = np.random.default_rng(0)
    rows = [
        (np.flatnonzero(rng.random(60) < np.linspace(0.02, 0.9, 60)) * step + index_base).tolist() for _ in range(500)
    ]
    manifest = ingest([text_of(rows)], tmp_path / "data", InputOptions(index_base=index_base))
    assert bool(manifest.renumbered) == (step > 1)
    profile = read_profile(tmp_path / "data")
    counts = Counter(feature for row in rows for feature in row)
    assert profile.frequent == tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_FEATURES])
    assert (profile.rows, profile.counted_rows, sum(profile.lengths)) == (500, 500, 500)
    number, length = profile.longest[0]
    assert length == len(rows[number - 1]) == manifest.longest_row


def test_rows_that_are_added_leave_it_as_it_was(tmp_path):
    ingest([text_of([[1, 2], [1]])], tmp_path / "data")
    before = read_profile(tmp_path / "data")
    append_rows([text_of([[3, 4, 5], [3]])], tmp_path / "data", InputOptions(), InputLimits(), 1)
    assert read_profile(tmp_path / "data") == before
    assert before.longest == ((1, 2), (2, 1)) and before.rows == 2


@pytest.mark.parametrize("damage", [None, b"", b"{}", b"\x00" * 20])
def test_a_dataset_without_a_sound_one_has_none(tmp_path, damage):
    ingest([text_of([[1, 2], [1]])], tmp_path / "data")
    path = tmp_path / "data" / "profile.json"
    path.unlink() if damage is None else path.write_bytes(damage)
    assert read_profile(tmp_path / "data") is None
