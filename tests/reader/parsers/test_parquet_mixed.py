"""Parquet with categories: rows equal those of the table in CSV; and its faults."""

import io

import numpy as np
import pytest

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.arrow_table import ArrowTableParser
from streamsvm.reader.parsers.tables.stored import reads
from tests.contracts.problems import joined
from tests.reader.parsers.test_csv_mixed import as_dicts, feature_names
from tests.reader.parsers.test_csv_mixed import parsed as parsed_csv

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def parsed(tmp_path, table: dict, **given):
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(table), file, row_group_size=3)
    parser = ArrowTableParser(InputOptions("parquet", **given), Limits(), reads("parquet", tmp_path, Limits()))
    return parser, joined(list(parser.parse_chunks([file.getvalue()])))


TABLE = {
    "label": [1, -1, 1, -1],
    "proto": ["tcp", None, "ünd", "tcp"],
    "size": [1.5, None, 0.0, 3.0],
    "flag": pyarrow.array(["a", "b", "a", "a"]).dictionary_encode(),
    "code": [7, 8, None, 7],
}


@pytest.mark.parametrize("missing", ["zero", "indicator"])
def test_rows_are_those_of_csv(tmp_path, missing):
    options = {"categorical": "proto,flag,code", "missing": missing}
    parser, rows = parsed(tmp_path, TABLE, **options)
    text = "label,proto,size,flag,code\n1,tcp,1.5,a,7\n-1,,,b,8\n1,ünd,0,a,\n-1,tcp,3,a,7\n"
    csv_parser, csv_rows = parsed_csv(text, **options)
    assert parser.input is not None and csv_parser.input is not None
    names, csv_names = feature_names(parser.input), feature_names(csv_parser.input)
    assert as_dicts(rows, names) == as_dicts(csv_rows, csv_names)
    assert rows.label.tolist() == csv_rows.label.tolist()
    assert parser.input["format"] == "parquet"


def test_all_columns_that_are_strings(tmp_path):
    parser, _ = parsed(tmp_path, TABLE, categorical="all", missing="zero")
    assert parser.input is not None and parser.input["categorical"] == ["proto", "flag"]


@pytest.mark.parametrize(
    ("options", "code", "line"),
    [
        ({"categorical": "proto,flag"}, "missing_value", 2),
        ({"categorical": "flag", "missing": "zero"}, "column_type", None),
        ({"categorical": "nope"}, "categorical_missing", 1),
        ({"categorical": "label"}, "same_column", 1),
    ],
)
def test_faults(tmp_path, options, code, line):
    with pytest.raises(InputError) as caught:
        parsed(tmp_path, TABLE, **options)
    assert (caught.value.code, caught.value.line) == (code, line)
    assert caught.value.hint


def test_bad_rows_are_left_out(tmp_path):
    parser, rows = parsed(tmp_path, TABLE, categorical="proto,flag", on_bad_row="skip")
    assert rows.label.tolist() == [1, -1]
    assert parser.rejected.rows == 2


def test_infinities_are_no_missing_numbers(tmp_path):
    with pytest.raises(InputError) as caught:
        parsed(tmp_path, {**TABLE, "size": [1.0, np.inf, 2, 3]}, categorical="proto,flag", missing="zero")
    assert (caught.value.code, caught.value.line) == ("value_not_finite", 2)


def test_a_column_of_strings(tmp_path):
    table = {"label": ["a", "b"], "seq": ["ACGT" * 5, "ttttt" * 4], "other": ["x", "y"]}
    parser, rows = parsed(tmp_path, table, string_column="seq")
    assert parser.input == {"format": "fasta", "length": 20, "alphabet": "ACGT", "string_column": "seq"}
    assert np.diff(rows.indptr).tolist() == [2, 2]


def test_further_tables(tmp_path):
    first, _ = parsed(tmp_path, TABLE, categorical="proto,flag", missing="indicator")
    more = {name: TABLE[name] for name in reversed(TABLE)} | {"proto": ["new"] * 4}
    parser, rows = parsed(tmp_path, more, like=first.input)
    assert first.input is not None and parser.input is not None
    assert list(parser.input["dictionary"]["proto"]) == [*first.input["dictionary"]["proto"], "new"]
    assert as_dicts(rows, feature_names(parser.input))[0] == {
        "size": 1.5, "code": 7.0, "flag=a": 1.0, "proto=new": 1.0,
    }  # fmt: skip
