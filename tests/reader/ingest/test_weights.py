"""Weights of rows: shuffling and adding rows leaves each row its weight, and the manifest counts them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.append import LastBlock, append_rows, remove_block
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.blocks.manifest import WeightCounts, read_manifest
from tests.contracts.problems import stored_rows
from tests.refusals import refused


def weighted_text(weights, first=1) -> bytes:
    """LIBSVM text; the value of feature 1 is the number of the row."""
    return b"".join(b"%d:%r 1:%d\n" % (k % 2, weight, first + k) for k, weight in enumerate(weights))


def kept(directory) -> dict[int, float]:
    """Number of each row -> its weight."""
    dataset, found = Dataset(directory), {}
    for block in range(len(dataset.manifest.blocks)):
        for location in dataset.pieces(block):
            rows = dataset.piece(location).rows
            weight = np.ones(len(rows)) if rows.weight is None else rows.weight
            found.update(zip(rows.values.astype(int).tolist(), weight.tolist(), strict=True))
    return found


@settings(max_examples=20, deadline=None)
@given(
    weights=st.lists(st.floats(0, 1e38), min_size=1, max_size=300).filter(lambda found: max(found) > 1e-44),
    shuffle=st.sampled_from(["yes", "no"]),
    piece_words=st.sampled_from([16, 64, 1 << 18]),
    threads=st.sampled_from([1, 3]),
)
def test_every_row_keeps_its_weight(tmp_path_factory, weights, shuffle, piece_words, threads):
    directory = tmp_path_factory.mktemp("weights") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamsvm.reader.ingest.shuffle.PIECE_WORDS", piece_words)
        manifest = ingest([weighted_text(weights)], directory, InputOptions(shuffle=shuffle), threads=threads)
    assert kept(directory) == dict(enumerate(weights, start=1))
    counts = manifest.weights
    assert counts is not None
    zeros = int((np.array(weights).astype(np.float32) == 0).sum())  # to training
    assert (counts.least, counts.largest, counts.zeros) == (min(weights), max(weights), zeros)
    assert counts.total == pytest.approx(sum(weights))
    assert read_manifest(directory) == manifest


def test_a_row_longer_than_a_piece_keeps_its_weight(tmp_path, monkeypatch):
    monkeypatch.setattr("streamsvm.reader.ingest.shuffle.PIECE_WORDS", 64)
    long = " ".join(f"{k}:1" for k in range(1, 100))
    ingest([f"1:0.25 {long}\n-1:4 1:1\n".encode()], tmp_path / "data")
    rows, _ = stored_rows(tmp_path / "data")
    lengths = np.diff(rows.indptr).tolist()
    assert dict(zip(lengths, rows.weight.tolist(), strict=True)) == {99: 0.25, 1: 4.0}


def test_a_dataset_without_weights_has_none(tmp_path):
    assert ingest([b"1 1:1\n-1 1:2\n"], tmp_path / "data").weights is None
    assert stored_rows(tmp_path / "data")[0].weight is None


def test_weights_that_are_all_zero_are_refused(tmp_path):
    with refused(InputError, "no_weight") as caught:
        ingest([b"1:0 1:1\n-1:1e-60 1:1\n"], tmp_path / "data")
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("first", [b"1:2 1:1\n0:0 1:2\n", b"1 1:1\n0 1:2\n"])
@pytest.mark.parametrize("second", [b"1:0.5 1:3\n", b"1 1:3\n", b"0:0 1:3\n"])
def test_rows_without_weights_beside_others_have_weight_one(tmp_path, first, second):
    """Blocks may come with and without weights."""
    has_weights = [first[1:2] == b":", second[1:2] == b":"]
    ingest([first], tmp_path / "data")
    after = append_rows([second], tmp_path / "data", InputOptions(), InputLimits(), threads=2)
    expected = {1: 2.0, 2: 0.0} if has_weights[0] else {1: 1.0, 2: 1.0}
    expected[3] = {b"1:": 0.5, b"1 ": 1.0, b"0:": 0.0}[second[:2]]
    assert kept(tmp_path / "data") == expected
    assert after.weights == (WeightCounts.of(np.array(list(expected.values()))) if any(has_weights) else None)
    last = after.blocks[-1].number
    left = remove_block(tmp_path / "data", last).weights
    assert kept(tmp_path / "data") == {row: weight for row, weight in expected.items() if row < 3}
    if left is not None:
        assert (left.total, left.zeros) == (2.0, int(has_weights[0]))


def test_the_last_block_with_a_weight_stays(tmp_path):
    ingest([b"1:2 1:1\n"], tmp_path / "data")
    append_rows([b"0:0 1:2\n"], tmp_path / "data", InputOptions(), InputLimits(), threads=1)
    with pytest.raises(LastBlock, match="weight 0"):
        remove_block(tmp_path / "data", 0)
    assert kept(tmp_path / "data") == {1: 2.0, 2: 0.0}
