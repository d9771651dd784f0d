"""Arrow's files and streams, and ORC: the rows of Parquet, every fault, and sizes checked before decoding."""

import io
import struct
from functools import partial

import numpy as np
import polars
import pyarrow
import pytest
from pyarrow import feather, ipc, orc, parquet

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.sniff import recognise
from streamsvm.reader.parsers.tables.arrow import ArrowTableParser
from streamsvm.reader.parsers.tables.stored import reads
from tests.contracts.problems import joined
from tests.refusals import fault_of, refused


def as_file(table, rows: int = 100, new=ipc.new_file, **options) -> bytes:
    sink = io.BytesIO()
    with new(sink, table.schema, options=ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


def stored_by(write, *table, **options) -> bytes:
    sink = io.BytesIO()
    write(*table, sink, **options)
    return sink.getvalue()


as_stream, as_parquet = partial(as_file, new=ipc.new_stream), partial(stored_by, parquet.write_table)
as_orc = partial(stored_by, orc.write_table, compression="zstd")
as_feather = partial(stored_by, feather.write_feather, compression="lz4")


def as_polars(table, compression: str = "uncompressed") -> bytes:
    return stored_by(polars.from_arrow(table).write_ipc, compression=compression, record_batch_size=100)


WAYS = {
    "polars": as_polars, "polars lz4": lambda table: as_polars(table, "lz4"),
    "file": as_file, "stream": as_stream, "feather": as_feather, "orc": as_orc,
    "zstd": lambda table: as_file(table, compression="zstd"), "lz4": lambda table: as_stream(table, compression="lz4"),
}  # fmt: skip


def some_table(n: int = 350):
    rng = np.random.default_rng(0)
    words = pyarrow.array([["red", "blue", None][k % 3] for k in range(n)])
    columns = {f"f{k}": rng.standard_normal(n) * (rng.random(n) < 0.5) for k in range(3)}
    return pyarrow.table({**columns, "color": words.dictionary_encode(), "target": rng.integers(0, 2, n)})


def read(data: bytes, scratch, limits: InputLimits | None = None, size: int = 1 << 20, **options):
    format_ = options.pop("format", None) or recognise(data[: 1 << 16])
    parser = ArrowTableParser(
        InputOptions(format_, **options), limits or InputLimits(), reads(format_, scratch, limits or InputLimits())
    )
    return parser, joined(list(parser.parse_chunks(data[k : k + size] for k in range(0, len(data), size))))


def fault(data: bytes, scratch, *limits, **options) -> InputError:
    found = fault_of(read, data, scratch, *limits, **options)
    assert list(scratch.iterdir()) == []
    return found


@pytest.mark.parametrize("way", WAYS)
def test_rows_and_inputs_are_those_of_parquet(tmp_path, way):
    options = {"categorical": "all", "missing": "zero"}
    table = some_table()
    if way == "orc":
        table = table.cast(pyarrow.schema([*list(table.schema)[:3], ("color", pyarrow.string()), table.schema[4]]))
    expected, rows = read(as_parquet(table), tmp_path, **options)
    parser, found = read(WAYS[way](table), tmp_path, size=77, **options)
    for name in ("label", "indptr", "indices", "values"):
        assert np.array_equal(getattr(found, name), getattr(rows, name))
    format_ = "orc" if way == "orc" else "arrow"
    assert {**parser.input, "format": "parquet"} == expected.input and parser.input["format"] == format_
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("write", [as_file, as_orc, as_parquet])
def test_a_fault_in_a_late_batch_names_row_and_column(tmp_path, write):
    values = np.ones(200_000)
    values[150_000] = np.inf
    table = pyarrow.table({"label": np.ones(200_000), "value": values})
    found = fault(write(table), tmp_path)
    assert (found.code, found.line) == ("value_not_finite", 150_001) and "column 2 (value)" in found.message
    parser, rows = read(write(table), tmp_path, on_bad_row="skip")
    assert len(rows) == 199_999 and [each.line for each in parser.rejected.first] == [150_001]
    table = pyarrow.table({"label": [1, 2], "value": pyarrow.array([[1], [2]])})
    assert fault(write(table), tmp_path).code == "column_type"


SMALL = some_table(250)


@pytest.mark.parametrize("way", ["file", "stream", "zstd", "lz4"])
def test_a_file_cut_anywhere_is_refused(tmp_path, way):
    data = WAYS[way](SMALL)
    for end in [*range(16, len(data), 61), len(data) - 1]:
        assert fault(data[:end], tmp_path, categorical="all", missing="zero").code == "bad_arrow"


@pytest.mark.parametrize("way", WAYS)
def test_damage_is_a_fault_or_other_values(tmp_path, way):
    rng = np.random.default_rng(1)
    data = WAYS[way](SMALL if way != "orc" else SMALL.drop_columns(["color"]))
    codes = set()
    for _ in range(150):
        damaged = bytearray(data)
        damaged[rng.integers(8, len(data))] ^= 1 << int(rng.integers(8))
        try:
            read(bytes(damaged), tmp_path, categorical="all", missing="zero", on_bad_row="skip")
        except InputError as error:
            codes.add(error.code)
    assert codes <= {
        "bad_arrow", "bad_orc", "batch_too_large", "decompressed_too_large", "column_type", "label_column_missing",
        "duplicate_column", "no_rows", "too_many_features",
    }  # fmt: skip


def test_a_dictionary_index_that_points_nowhere_is_found(tmp_path):
    indices = pyarrow.array([0, 9], pyarrow.int32())
    broken = pyarrow.DictionaryArray.from_arrays(indices, ["a", "b"], safe=False)
    table = pyarrow.table({"label": [0, 1], "word": broken})
    assert fault(as_stream(table), tmp_path, categorical="all").code == "bad_arrow"


def test_streams_that_follow_each_other_are_read_in_turn(tmp_path):
    table = some_table()
    _, once = read(as_stream(table), tmp_path, categorical="all", missing="zero")
    _, twice = read(as_stream(table) * 2, tmp_path, categorical="all", missing="zero")
    assert np.array_equal(twice.values, np.tile(once.values, 2)) and len(twice) == 700


def test_an_old_stream_and_old_feather_are_refused_with_their_names(tmp_path):
    with pytest.raises(InputError, match="Feather file of version 1"):
        ingest([b"FEA1" + bytes(100)], tmp_path / "old")
    data = as_stream(SMALL, use_legacy_format=True)
    with refused(InputError, "bad_arrow"):
        read(data, tmp_path, format="arrow")


def test_tables_larger_than_the_limit_are_refused(tmp_path):
    zeros = pyarrow.table({"label": np.zeros(1_000_000), "a": np.zeros(1_000_000)})
    packed = as_stream(zeros, 1_000_000, compression="zstd")
    nulls = as_stream(pyarrow.table({"label": pyarrow.nulls(1_000_000), "a": pyarrow.nulls(1_000_000)}), 1_000_000)
    assert max(len(packed), len(nulls)) < 10_000
    for data in (packed, nulls, as_orc(zeros)):
        assert fault(data, tmp_path, limits=InputLimits(max_bytes=15_999_999)).code == "decompressed_too_large"


def test_a_buffer_that_says_it_is_huge_is_refused(tmp_path):
    data = as_stream(pyarrow.table({"label": np.zeros(5000), "a": np.zeros(5000)}), 5000, compression="zstd")
    size = struct.pack("<q", 40_000)
    assert size in data
    found = fault(data.replace(size, struct.pack("<q", 1 << 45)), tmp_path)
    assert found.code in ("bad_arrow", "batch_too_large")  # as there is address space


def test_a_large_batch_is_read_without_a_copy(tmp_path):
    """Batches without compression are parts of the file, which is mapped: pyarrow allocates columns of a part."""
    n = 2_000_000
    sink = io.BytesIO()
    table = pyarrow.table({"label": np.arange(n) % 2, "a": np.arange(n, dtype=float)})
    with ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    before = pyarrow.total_allocated_bytes()
    parser = ArrowTableParser(InputOptions("arrow"), InputLimits(), reads("arrow", tmp_path, InputLimits()))
    del table
    most = max(pyarrow.total_allocated_bytes() for _ in parser.parse_chunks([sink.getvalue()]))
    assert parser.rows == n and most < before + (4 << 20)
