"""Hints of columns that hold something else than numbers: each option that one names makes the table readable."""

import re
from datetime import date

import pytest

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.append import append_rows
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from tests.reader.parsers.test_columns import WRITERS, as_csv, read_in

COLUMN = {
    "words": ["tcp", "udp", "tcp", "udp"],
    "odd": ["tcp", "2", "3", "5"],
    "dates": ["2024-01-31", "2024-02-01", "2024-01-31", "2024-02-02"],
    "documents": ["what a film", "what a dull film", "so it is", "no it is not"],
    "decimal": ["1,5", "2,5", "0,5", "7,25"],
}
HINTS = {
    "odd": "set categorical=all if words are categories, or leave the column out: drop_columns={0}; "
    "label_column={0} if it has the labels",
    "dates": "leave the column of dates out: drop_columns={0}; or make each date a category: categorical=all",
    "documents": "set categorical=all if words are categories, or leave the column out: drop_columns={0}; "
    "label_column={0} if it has the labels; text_column={0} if it has documents",
    "decimal": "set decimal=comma if numbers are written as 1,5",
}
OPTION = re.compile(r"(\w+)=(\w+)")


def hint_of(directory, data: bytes, format_: str, **options) -> str:
    with pytest.raises(InputError) as caught:
        read_in(directory, data, format_, **options)
    assert caught.value.code in ("not_numeric", "column_type")
    return caught.value.hint


def table(kind: str, name: str) -> dict:
    return {"label": [0, 1, 0, 1], "x": [1, 2, 3, 5], name: COLUMN[kind]}


@pytest.mark.parametrize("name", ["what", "what it is", "größe"])
@pytest.mark.parametrize("kind", HINTS)
def test_every_option_in_a_hint_makes_the_table_readable(tmp_path, kind, name):
    data = as_csv(table(kind, name)).replace(b",", b";") if kind != "decimal" else as_csv(table(kind, name))
    if kind == "decimal":
        data = re.sub(rb"(\d+),(\d+)$", rb'"\1,\2"', data, flags=re.MULTILINE)
    hint = hint_of(tmp_path / "first", data, "csv")
    assert hint == HINTS[kind].format(name if name == "what" else 3)
    for number, (option, value) in enumerate(OPTION.findall(hint)):
        manifest, _ = read_in(tmp_path / f"data{number}", data, "csv", **{option: value})
        assert manifest.n_rows == 4, (option, value)


def test_columns_that_are_no_numbers_in_parquet_have_the_hints_of_csv(tmp_path):
    days = {**table("words", "what"), "what": [date(2024, 1, day) for day in (1, 2, 3, 4)]}
    assert hint_of(tmp_path / "first", WRITERS["parquet"](days), "parquet") == HINTS["dates"].format("what")
    lists = {**table("words", "what"), "what": [[1], [2], [3], [4]]}
    assert (
        hint_of(tmp_path / "first", WRITERS["parquet"](lists), "parquet") == "leave the column out: drop_columns=what"
    )


@pytest.mark.parametrize(
    ("options", "data", "hint"),
    [
        ({}, b"label,x\n1,1\nspam,2\n", "set label_type=string if labels are words, or name the column of labels: "),
        ({"weight_column": "w"}, b"label,x,w\n1,1,1\n0,2,heavy\n", "write weights as plain decimal numbers, or name "),
        ({"header": "no"}, b"label,x\n1,1\n0,2\n", "set header=yes if the first line names the columns; else "),
    ],
)
def test_labels_weights_and_names(tmp_path, options, data, hint):
    assert hint_of(tmp_path / "data", data, "csv", **options).startswith(hint)


@pytest.mark.parametrize("format_", WRITERS)
def test_rows_that_are_added_have_the_columns_of_the_first(tmp_path, format_):
    numbers = {"label": [0, 1, 0, 1], "x": [1, 2, 3, 5], "what": [1, 2, 3, 4]}
    read_in(tmp_path / "data", WRITERS[format_](numbers), format_)
    with pytest.raises(InputError) as caught:
        words = WRITERS[format_](table("words", "what"))
        append_rows([words], tmp_path / "data", InputOptions(format_), InputLimits(), 1)
    assert caught.value.hint == "write plain decimal numbers: this column had numbers before"


def test_a_mistyped_column_is_guessed(tmp_path):
    names = ",".join(f"c{k}" for k in range(9))
    with pytest.raises(InputError) as caught:
        read_in(tmp_path / "data", f"{names},churned\n".encode(), "csv", label_column="churn")
    assert caught.value.hint.startswith("did you mean churned? else set label_column to a name")
