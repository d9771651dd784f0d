"""A CSR matrix in an npz file: its rows, every fault, no pickle, and sizes checked before decoding."""

import io
import zipfile

import numpy as np
import pytest
from scipy import sparse

from streamsvm.reader.errors import HINTS, InputError
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers import matrices
from streamsvm.reader.parsers.matrices import NpzParser
from tests.contracts.problems import joined, random_problem, stored_rows
from tests.refusals import fault_of


def file_of(X=None, y=None, compressed=False, **more) -> bytes:
    """The arrays of a matrix and its labels."""
    if X is None:
        X, y = random_problem(20, 10, 4)
    sink = io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(sink, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y, **more)
    return sink.getvalue()


def read(data: bytes, scratch, limits: InputLimits | None = None, **options):
    parser = NpzParser(InputOptions(**options), limits or InputLimits(), scratch)
    return parser, joined(list(parser.parse_chunks([data[:100], data[100:]])))


def fault(data: bytes, scratch, *limits, **options) -> InputError:
    found = fault_of(read, data, scratch, *limits, **options)
    assert list(scratch.iterdir()) == []
    return found


def small(**replaced) -> bytes:
    """Two rows: columns 0 and 2, and column 1. An array that is None is left out."""
    arrays = {"data": [1.0, 2.0, 3.0], "indices": [0, 2, 1], "indptr": [0, 2, 3], "shape": [2, 3], "y": [1, -1]}
    sink = io.BytesIO()
    chosen = {**arrays, **replaced}
    np.savez(sink, **{name: array for name, array in chosen.items() if array is not None})
    return sink.getvalue()


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("base", ["auto", 0, 1])
def test_the_rows_are_those_of_the_matrix(tmp_path, compressed, base, monkeypatch):
    monkeypatch.setattr(matrices, "_ROWS_AT_ONCE", 64)
    monkeypatch.setattr(matrices, "_VALUES_AT_ONCE", 50)
    X, y = random_problem(500, 150, 15)
    parser, rows = read(file_of(X, y, compressed), tmp_path, index_base=base)
    first = 1 if base == 1 else 0
    assert np.array_equal(rows.indptr, X.indptr)
    assert np.array_equal(rows.indices - first, X.sorted_indices().indices)
    assert np.array_equal(rows.values, X.sorted_indices().data)
    assert np.array_equal(rows.label, y)
    assert (parser.index_base, parser.max_index, parser.rows, parser.nnz) == (first, first + 149, 500, X.nnz)


def test_what_scipy_saves_with_labels_added(tmp_path):
    X, y = random_problem(20, 10, 4)
    sink = io.BytesIO()
    sparse.save_npz(sink, X)
    labels = io.BytesIO()
    np.save(labels, y)
    with zipfile.ZipFile(sink, "a") as archive:
        archive.writestr("label.npy", labels.getvalue())
    manifest = ingest([sink.getvalue()], tmp_path / "data")
    rows, _ = stored_rows(tmp_path / "data")
    assert (manifest.n_features, manifest.index_base, manifest.nnz) == (10, 0, X.nnz)
    assert np.array_equal(np.sort(rows.values), np.sort(X.data))


def test_unsorted_indices_and_zeros(tmp_path):
    parser, rows = read(small(indices=[2, 0, 1], data=[1.0, 0.0, 3.0]), tmp_path)
    assert (rows.indices.tolist(), rows.values.tolist(), rows.indptr.tolist()) == ([2, 1], [1.0, 3.0], [0, 1, 2])
    assert parser.counters["explicit_zeros"] == 1
    assert read(small(data=[True, True, False]), tmp_path)[1].values.tolist() == [1.0, 1.0]


PICKLED = np.array([{}, {}], dtype=object)


@pytest.mark.parametrize(
    ("replaced", "code"),
    [
        ({"y": [1.0]}, "bad_npz"),
        ({"y": PICKLED}, "bad_npz"),
        ({"y": ["1", "2"]}, "bad_npz"),
        ({"y": [[1], [2]]}, "bad_npz"),
        ({"indptr": [0, 2]}, "bad_npz"),
        ({"indptr": [1, 2, 3]}, "bad_npz"),
        ({"indptr": [0, 3, 2]}, "bad_npz"),
        ({"indptr": [0, 2, 4]}, "bad_npz"),
        ({"indptr": [0.0, 2.0, 3.0]}, "bad_npz"),
        ({"data": [1.0, 2.0]}, "bad_npz"),
        ({"shape": [2]}, "bad_npz"),
        ({"shape": [2.0, 3.0]}, "bad_npz"),
        ({"shape": [-2, 3]}, "bad_npz"),
        ({"shape": [3, 3]}, "bad_npz"),
        ({"format": b"csc"}, "bad_npz"),
        ({"indices": [0, 3, 1]}, "bad_index"),
        ({"indices": [0, -1, 1]}, "bad_index"),
        ({"indices": [2, 2, 1]}, "index_duplicate"),
        ({"data": [1.0, np.nan, 3.0]}, "value_not_finite"),
        ({"data": [1.0, 1e39, 3.0]}, "row_overflow"),
        ({"y": [np.nan, 1.0]}, "value_not_finite"),
        ({"y": [2**53 + 1, 1]}, "label_not_exact"),
        ({"shape": [2, 1 << 40]}, "too_many_features"),
        (
            {"shape": [0, 3], "indptr": [0], "y": np.zeros(0), "data": np.zeros(0), "indices": np.zeros(0, int)},
            "no_rows",
        ),
    ],
)
def test_faults(tmp_path, replaced, code):
    assert fault(small(**replaced), tmp_path).code == code


@pytest.mark.parametrize("name", ["data", "indices", "indptr", "shape", "y"])
def test_an_array_that_is_missing(tmp_path, name):
    assert fault(small(**{name: None}), tmp_path).code == "bad_npz"


def test_bad_rows_are_left_out_and_counted(tmp_path):
    parser, rows = read(small(data=[1.0, np.inf, 3.0]), tmp_path, on_bad_row="skip")
    assert (rows.label.tolist(), rows.indices.tolist(), rows.values.tolist()) == ([-1.0], [1], [3.0])
    assert [(found.code, found.line) for found in parser.rejected.first] == [("value_not_finite", 1)]


@pytest.mark.parametrize("compressed", [False, True])
def test_every_truncation_and_damage_is_told(tmp_path, compressed):
    data = file_of(compressed=compressed)
    for end in range(0, len(data), 7):
        assert fault(data[:end], tmp_path).code == "bad_npz"
    expected = read(data, tmp_path)[1]
    for place in range(0, len(data), 11):
        damaged = bytearray(data)
        damaged[place] ^= 0x55
        try:
            rows = read(bytes(damaged), tmp_path)[1]
        except InputError as error:
            assert error.code in HINTS
        else:
            # What zip does not check says nothing about the rows.
            assert np.array_equal(rows.values, expected.values) and np.array_equal(rows.indices, expected.indices)


def test_sizes_are_looked_at_before_anything_is_decoded(tmp_path):
    X = sparse.csr_matrix(np.zeros((1, 3)))
    packed = file_of(X, np.ones(1), compressed=True, extra=np.zeros(9_000_000))
    assert len(packed) < 100_000
    assert fault(packed, tmp_path, InputLimits(max_bytes=70_000_000)).code == "decompressed_too_large"
    assert fault(packed, tmp_path, InputLimits(max_ratio=100)).code == "decompressed_too_large"
