"""Features of wide data are numbered by frequency in the blocks, and as in the input everywhere else."""

import numpy as np
import pytest
from scipy import sparse

from streamsvm.reader.ingest.renumber import Renumbering
from streamsvm.reader.ingest.run import ingest
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.errors import CorruptData
from streamsvm.storage.rows.csr import LARGE_W
from tests.contracts.problems import stored_rows
from tests.reference.dcd import dcd
from tests.training import train

WIDTH = LARGE_W + 5000


def wide_text(n_rows=400, seed=0):
    """(LIBSVM text, dense columns used, values): few features, far apart, the last ones the most frequent."""
    rng = np.random.default_rng(seed)
    used = np.sort(rng.choice(WIDTH - 1, 40, replace=False)) + 1
    used[-1] = WIDTH - 1
    X = np.where(rng.random((n_rows, 40)) < np.linspace(0.05, 0.9, 40), rng.standard_normal((n_rows, 40)), 0.0)
    X = X.astype(np.float32)
    y = np.where(X @ rng.standard_normal(40) > 0, 1, -1)
    lines = [
        f"{label} " + " ".join(f"{used[j]}:{row[j]:.9g}" for j in np.flatnonzero(row))
        for label, row in zip(y, X, strict=True)
    ]
    return "\n".join(lines).encode() + b"\n", used, X, y


def test_frequent_features_come_first():
    renumbering = Renumbering()
    renumbering.observe(np.array([7, LARGE_W + 3, 7, 2], np.int32), 1)
    renumbering.observe(np.array([LARGE_W + 3, LARGE_W + 3, 0], np.int32), 1)
    renumbering.settle()
    indices = np.array([LARGE_W + 3, 7, 0, 2, 1, LARGE_W + 4, LARGE_W + 900], np.int32)
    renumbering.apply(indices)
    assert indices.tolist() == [0, 1, 2, 3, 4, LARGE_W + 4, LARGE_W + 900]
    assert np.array_equal(np.sort(renumbering.numbering.places), np.arange(LARGE_W + 4))


def test_a_short_w_stays_as_it_is():
    renumbering = Renumbering()
    renumbering.observe(np.array([5, LARGE_W - 1], np.int32), 1)
    renumbering.settle()
    assert renumbering.numbering.places is None


def test_blocks_do_not_depend_on_the_pieces_of_the_input(tmp_path):
    text, *_ = wide_text()
    ingest([text], tmp_path / "whole")
    ingest([text[start : start + 997] for start in range(0, len(text), 997)], tmp_path / "pieces")
    (whole, y), (pieces, z) = (stored_rows(tmp_path / name) for name in ("whole", "pieces"))
    for name in ("label", "indptr", "indices", "values"):
        assert np.array_equal(getattr(whole, name), getattr(pieces, name))
    assert np.array_equal(y, z)


def test_training_on_wide_data(tmp_path):
    text, used, X, y = wide_text()
    manifest = ingest([text], tmp_path / "data")
    assert manifest.renumbered == WIDTH
    dataset = Dataset(tmp_path / "data")
    asked = {"loss": "squared_hinge", "tolerance": None, "relative_gap": 1e-6, "max_passes": 3000}
    found = train(tmp_path / "run", tmp_path / "data", 400_000, **asked)
    w = dataset.in_input_order(found.w)
    # The frequent ones are in front in the blocks.
    assert np.flatnonzero(found.w).max() < 41
    best = dcd(sparse.csr_matrix(X.astype(float)), y.astype(float), 1.0, "squared_hinge", tol=1e-8)
    assert w[used] == pytest.approx(best.w, abs=2e-2)
    assert np.count_nonzero(w) == np.count_nonzero(w[used])


def test_damaged_places_are_noticed(tmp_path):
    text, *_ = wide_text(50)
    ingest([text], tmp_path / "data")
    dataset, file = Dataset(tmp_path / "data"), tmp_path / "data" / "features"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptData):
        dataset.in_input_order(np.zeros(WIDTH))
    file.unlink()
    with pytest.raises(CorruptData):
        dataset.in_input_order(np.zeros(WIDTH))
