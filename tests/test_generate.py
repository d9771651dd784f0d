"""The generator keeps its promises: reproducible bytes, well-formed unit rows, the size or number of rows asked for."""

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from tests.bench.generate import corpus_of, generate
from tests.bench.generate_kernel import scatter, write_fraction, write_integer

SMALL = {"features": 5000, "row_length": 30.0}


def written(path, **arguments) -> bytes:
    generate(path, **{**SMALL, **arguments})
    return path.read_bytes()


def test_same_seed_same_bytes_other_seed_other_bytes(tmp_path):
    first = written(tmp_path / "a", rows=9000, seed=3)  # more than one chunk
    assert first == written(tmp_path / "b", rows=9000, seed=3)
    assert first != written(tmp_path / "c", rows=9000, seed=4)
    assert first != written(tmp_path / "d", rows=9000, seed=3, test=True)


def test_a_smaller_set_begins_a_larger_one(tmp_path):
    assert written(tmp_path / "a", rows=9000).startswith(written(tmp_path / "b", rows=100))


def test_rows_are_unit_rows_with_increasing_indices(tmp_path):
    text = written(tmp_path / "a", rows=500)
    for line in text.decode().splitlines():
        label, *entries = line.split(" ")
        indices, values = zip(*((int(i), float(v)) for i, v in (entry.split(":") for entry in entries)), strict=True)
        assert label in ("+1", "-1")
        assert min(indices) >= 1
        assert max(indices) <= SMALL["features"]
        assert all(a < b for a, b in itertools.pairwise(indices))
        assert np.linalg.norm(values) == pytest.approx(1.0, abs=2e-6)


def test_sklearn_reads_it_and_the_shape_is_as_asked(tmp_path):
    n_rows, n_bytes = generate(tmp_path / "a", rows=8000, **SMALL)
    X, y = load_svmlight_file(tmp_path / "a", n_features=SMALL["features"], zero_based=False)
    assert X.shape == (8000, 5000) == (n_rows, 5000)
    assert n_bytes == (tmp_path / "a").stat().st_size
    assert 27 < X.nnz / n_rows < 33
    assert 0.3 < np.mean(y > 0) < 0.7
    assert np.mean(y[1:] == y[:-1]) > 0.53  # authors have a label tendency


def test_size_is_kept_to_the_row(tmp_path):
    _, n_bytes = generate(tmp_path / "a", size_bytes=200_000, **SMALL)
    text = (tmp_path / "a").read_bytes()
    assert n_bytes == len(text) >= 200_000
    assert text.endswith(b"\n")
    assert len(text[: text[:-1].rindex(b"\n") + 1]) < 200_000


def test_numbers_are_formatted_as_percent_g():
    buffer = np.zeros(64, np.uint8)
    rng = np.random.default_rng(0)
    for value in np.concatenate([10.0 ** rng.uniform(-4, 0, 2000), [1.0, 0.5, 0.9999999, 0.1, 0.00012345]]):
        assert buffer[: write_fraction(buffer, 0, value)].tobytes().decode() == f"{value:.6g}"
    assert float(buffer[: write_fraction(buffer, 0, 3.21e-7)].tobytes()) == pytest.approx(3.21e-7)
    for value in (1, 9, 10, 4194304):
        assert buffer[: write_integer(buffer, 0, value)].tobytes().decode() == str(value)


@pytest.mark.parametrize("features", [3, 1000, 4096])
def test_ranks_scatter_over_all_features(features):
    corpus = corpus_of(1, features)
    assert sorted(scatter(rank, corpus) for rank in range(features)) == list(range(features))
