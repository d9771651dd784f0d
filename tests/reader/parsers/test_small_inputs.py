"""Small inputs, or inputs that are small when compressed, take little memory and have clear errors."""

import io
import struct
import tracemalloc
import zipfile

import pytest

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.csv import CsvParser
from streamsvm.reader.parsers.tables.fields import FieldReader
from tests.end_to_end.cgroup import reason_unusable, run_in
from tests.refusals import refused

HEADERS = [
    b"[" * 9000,
    b"(" * 9000,
    b"{'descr':" + b"-" * 9000 + b"1}",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (" + b"9" * 4000 + b",), }",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
    b"{'descr': '" + b"<f8," * 2000 + b"', 'fortran_order': False, 'shape': (1,), }",
    b"'''",
    b"\\\n",
    b"\xff",
]


def array(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
def test_a_header_that_is_none(tmp_path, header):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("data", "indices", "indptr", "shape", "y"):
            archive.writestr(f"{name}.npy", array(header))
    for format_, data, code in (("npz", file.getvalue(), "bad_npz"), ("batches", array(header), "bad_batch")):
        with refused(InputError, code):
            ingest([data], tmp_path / "data", InputOptions(format_))
    assert not list(tmp_path.iterdir())


def test_fields_in_quotes():
    split = FieldReader(b",").split
    assert [field for _, field in split(b'"a""b,c","",d', 3)] == [b'a"b,c', b"", b"d"]


@pytest.mark.parametrize("delimiter", [b",", b"\t", b" "])
@pytest.mark.parametrize("most", [1, 3, 10])
def test_a_line_without_quotes_has_the_fields_and_places_that_it_has_with_one(delimiter, most):
    split = FieldReader(delimiter).split
    for line in (b"", b"a", b",", b" a ,\tb,,c", b"a,b c\td,e", b",,,,,"):
        quoted = split(line + delimiter * (most + 1) + b'""', most)
        assert split(line, most) == quoted[: min(line.count(delimiter), most) + 1]


def test_fields_beyond_those_that_are_wanted_are_not_taken_apart():
    split = FieldReader(b",").split
    assert len(split(b"," * 100_000, 3)) == len(split(b"," * 100_000 + b'""', 3)) == 4


@pytest.mark.parametrize("fields", [b",", b"1,"])
def test_a_line_of_millions_of_columns_is_refused_without_taking_it_apart(fields):
    text = b"y,a\n1,2\n1,2\n" + fields * 8_000_000 + b"\n"
    tracemalloc.start()
    try:
        with refused(InputError, "column_count"):
            list(CsvParser(InputOptions("csv", missing="zero"), InputLimits()).parse_chunks([text]))
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


# The input is small, but a parser that stored an object for each of its bytes would need much memory.
MANY = 1 << 24
BLANK = {
    "libsvm": b"\n" * MANY + b"1 1:1\n-1 2:1\n",
    "csv": b'y,a\n1,"' + b"a" * (MANY - 100) + b'"\n',
    "text": b"1\tsome words\n-1\tand others\n" + b"\n" * MANY,
}


@pytest.mark.parametrize("format_", BLANK)
def test_memory_does_not_follow_from_lines_without_data(tmp_path, format_):
    """Run within 400 MiB, of which interpreter and compiler take 160."""
    if reason := reason_unusable():
        pytest.skip(reason)
    (tmp_path / "input").write_bytes(BLANK[format_])
    with (tmp_path / "input").open("rb") as file:
        group = run_in(
            "blank", 400 << 20, "streamsvm.reader.ingest.run", str(tmp_path / "data"), "--format", format_, stdin=file
        )
    assert group.returncode == (1 if format_ == "csv" else 0), group.stdout
    assert not group.stdout or b"problem" in group.stdout or b"rows" in group.stdout
