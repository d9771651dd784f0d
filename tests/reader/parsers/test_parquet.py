"""Parquet: the rows of the table, every fault, and sizes checked before decoding."""

from functools import partial

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from streamsvm.reader.limits import InputLimits
from tests.reader.parsers.test_arrow import as_parquet
from tests.reader.parsers.test_arrow import fault as any_fault
from tests.reader.parsers.test_arrow import read as any_read


def file_of(columns: dict, **options) -> bytes:
    return as_parquet(pyarrow.table(columns), **options)


read, fault = partial(any_read, format="parquet"), partial(any_fault, format="parquet")


@pytest.mark.parametrize("options", [{}, {"compression": "zstd"}, {"row_group_size": 7}, {"use_dictionary": False}])
def test_the_rows_are_those_of_the_table(tmp_path, options):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 5)) * (rng.random((100, 5)) < 0.5)
    y = np.where(rng.random(100) < 0.5, 1, -1)
    columns = {f"f{k}": X[:, k] for k in range(2)} | {"y": y} | {f"f{k}": X[:, k] for k in range(2, 5)}
    parser, rows = read(file_of(columns, **options), tmp_path, size=13)
    dense = np.zeros((100, 5), np.float32)
    dense[np.repeat(np.arange(100), np.diff(rows.indptr)), rows.indices - 1] = rows.values
    assert np.array_equal(dense, X.astype(np.float32))
    assert np.array_equal(rows.label, y)
    assert (parser.rows, parser.nnz, parser.max_index, parser.index_base) == (100, rows.nnz, 5, 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("columns", "code", "line"),
    [
        ({"y": [b"1", b"-1"], "a": [1, 2]}, "column_type", None),
        ({"y": [1, -1], "a": [[1], [2]]}, "column_type", None),
        ({"y": [1, -1], "a": [1, None]}, "missing_value", 2),
        ({"y": [1, None], "a": [1, 2]}, "missing_value", 2),
        ({"y": [1, -1], "a": [1.0, float("nan")]}, "missing_value", 2),
        ({"y": [1, -1], "a": [float("inf"), 1.0]}, "value_not_finite", 1),
        ({"y": [1, -1], "a": [1.0, 1e39]}, "row_overflow", 2),
        ({"b": [1, -1], "a": [1, 2]}, "label_column_missing", 1),
        ({"y": pyarrow.array([], pyarrow.int8()), "a": pyarrow.array([], pyarrow.int8())}, "no_rows", None),
        ({}, "no_rows", None),
    ],
)
def test_a_fault_and_its_row(tmp_path, columns, code, line):
    found = fault(file_of(columns), tmp_path)
    assert (found.code, found.line) == (code, line)


@pytest.mark.parametrize(
    ("options", "code", "line"),
    [
        ({"categorical": "proto,flag"}, "missing_value", 2),
        ({"categorical": "flag", "missing": "zero"}, "column_type", None),
        ({"categorical": "all", "missing": "zero"}, "value_not_finite", 3),
    ],
)
def test_faults_of_categories(tmp_path, options, code, line):
    flag = pyarrow.array(["a", "b", "a"]).dictionary_encode()
    columns = {"label": [1, -1, 1], "proto": ["tcp", None, "ünd"], "size": [1.5, 2.0, np.inf], "flag": flag}
    found = fault(file_of(columns), tmp_path, **options)
    assert (found.code, found.line) == (code, line)


def test_a_column_of_strings(tmp_path):
    columns = {"label": ["a", "b"], "seq": ["ACGT" * 5, "ttttt" * 4], "other": ["x", "y"]}
    parser, rows = read(file_of(columns), tmp_path, string_column="seq")
    assert parser.input == {"format": "fasta", "length": 20, "alphabet": "ACGT", "string_column": "seq"}
    assert np.diff(rows.indptr).tolist() == [2, 2]


def test_bad_rows_are_left_out_and_counted(tmp_path):
    columns = {"y": [1, 2, None, 4], "a": [None, 5.0, 6.0, float("inf")]}
    parser, rows = read(file_of(columns), tmp_path, on_bad_row="skip")
    assert (rows.label.tolist(), rows.values.tolist()) == ([2.0], [5.0])
    assert [(found.code, found.line) for found in parser.rejected.first] == [
        ("missing_value", 1), ("missing_value", 3), ("value_not_finite", 4),
    ]  # fmt: skip


GOOD = file_of({"y": [1, -1] * 50, "a": np.arange(100.0)})


@pytest.mark.parametrize(
    "data", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", GOOD[:-1], GOOD[: len(GOOD) // 2], GOOD[9:]]
)
def test_what_is_no_whole_file(tmp_path, data):
    assert fault(data, tmp_path).code == "bad_parquet"


def test_damage_inside_is_told(tmp_path):
    data = file_of({"y": [1, -1] * 5000, "a": np.random.default_rng(0).random(10_000)}, write_page_checksum=False)
    damaged = data[:4] + bytes(40) + data[44:]
    assert fault(damaged, tmp_path).code == "bad_parquet"


def test_sizes_are_looked_at_in_the_footer(tmp_path, monkeypatch):
    data = file_of({"y": np.zeros(1_000_000), "a": np.zeros(1_000_000)})
    assert len(data) < 10_000

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", lambda *_, **__: pytest.fail("something was decoded"))
    assert fault(data, tmp_path, limits=InputLimits(max_bytes=15_999_999)).code == "decompressed_too_large"
    assert fault(data, tmp_path, limits=InputLimits(max_features=0)).code == "too_many_features"
