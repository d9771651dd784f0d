"""Rows handed over as numpy arrays, batch by batch."""

import io
from functools import partial

import numpy as np
import pytest
from scipy import sparse

from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.matrices import BatchesParser
from streamsvm.reader.parsers.streams import MOST_BYTES
from streamsvm.storage.blocks.dataset import Dataset
from tests.refusals import fault_of

X = sparse.csr_matrix(np.array([[0.0, 1.5, 0.0], [2.0, 0.0, -3.0], [0.0, 0.0, 0.0], [4.0, 5.0, 6.0]]))
Y = np.array([1.0, -1.0, 1.0, -1.0])


def batch(X=X, y=Y, weight=(), **replaced):
    """The bytes of one batch."""
    arrays = {"shape": X.shape, "y": y, "indptr": X.indptr, "indices": X.indices, "data": X.data, "weight": weight}
    file = io.BytesIO()
    for array in (arrays | replaced).values():
        np.save(file, array)
    return file.getvalue()


def read(data, size=1 << 20, **options):
    parser = BatchesParser(InputOptions("batches", **options), InputLimits())
    return parser, list(parser.parse_chunks(data[k : k + size] for k in range(0, len(data), size)))


fault = partial(fault_of, read)


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_batches_are_one_matrix(size):
    parser, found = read(batch(X[:1], Y[:1]) + batch(X[1:], Y[1:]), size)
    dense = sparse.vstack(
        [sparse.csr_matrix((rows.values, rows.indices, rows.indptr), (len(rows), 3)) for rows in found]
    )
    assert np.array_equal(dense.toarray(), X.toarray())
    assert np.concatenate([rows.label for rows in found]).tolist() == Y.tolist()
    assert (parser.rows, parser.nnz, parser.max_index, parser.counters["empty_rows"]) == (4, 6, 2, 1)


def test_weights():
    _, (rows,) = read(batch(weight=np.array([0.0, 1.0, 2.5, 3.0])))
    assert rows.weight.tolist() == [0.0, 1.0, 2.5, 3.0]
    _, (rows,) = read(batch())
    assert rows.weight is None


def test_a_dataset_of_batches_has_all_columns(tmp_path):
    empty = sparse.csr_matrix((2, 3))
    manifest = ingest([batch(empty, Y[:2]), batch()], tmp_path / "dataset", InputOptions("batches"))
    assert (manifest.n_rows, manifest.n_features, manifest.index_base) == (6, 3, 0)
    assert Dataset(tmp_path / "dataset").manifest.labels == {1.0: 3, -1.0: 3}


@pytest.mark.parametrize(
    "replaced",
    [
        {"shape": (4,)},
        {"shape": (-4, 3)},
        {"shape": (3, 3)},
        {"y": Y[:3]},
        {"y": np.array(["a"] * 4)},
        {"y": Y.reshape(2, 2)},
        {"indptr": X.indptr[::-1]},
        {"indptr": X.indptr + 1},
        {"indices": X.indices[:-1]},
        {"weight": Y[:2]},
    ],
)
def test_arrays_that_do_not_fit(replaced):
    assert fault(batch(**replaced)).code == "bad_batch"


@pytest.mark.parametrize(
    ("replaced", "code"),
    [
        ({"data": np.array([np.nan, 1, 1, 1, 1, 1])}, "value_not_finite"),
        ({"data": np.array([1e40, 1, 1, 1, 1, 1])}, "row_overflow"),
        ({"indices": np.array([3, 0, 2, 0, 1, 2])}, "bad_index"),
        ({"indices": np.array([1, 0, 0, 0, 1, 2])}, "index_duplicate"),
        ({"weight": np.array([1.0, -1.0, 1.0, 1.0])}, "negative_weight"),
    ],
)
def test_bad_rows(replaced, code):
    assert fault(batch(**replaced)).code == code


def test_batches_of_different_widths():
    assert fault(batch() + batch(X[:, :2].tocsr())).code == "bad_batch"


def test_every_truncation_is_told():
    data = batch()
    for end in range(1, len(data)):
        assert fault(data[:end]).code == "bad_batch"
    assert fault(b"").code == "no_rows"


def test_an_array_is_refused_before_it_is_held():
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (MOST_BYTES,)})
    assert "smaller batches" in fault(header.getvalue()).message
