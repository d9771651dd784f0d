"""Columns that are chosen, dropped, or look like ids or dates; in CSV and Parquet."""

import io

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.append import append_rows
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.columns import MOST_COLUMNS
from streamsvm.reader.parsers.tables.csv import CsvParser
from streamsvm.reader.parsers.tables.matching import ToPredict
from streamsvm.storage.blocks.manifest import read_manifest, read_profile
from tests.contracts.problems import stored_rows
from tests.refusals import refused

TABLE = {
    "id": list(range(20)), "day": ["2024-01-31"] * 20, "label": [k % 2 for k in range(20)],
    "a,b": [k % 3 + 1 for k in range(20)], "c": [k % 5 + 0.5 for k in range(20)],
}  # fmt: skip


def as_csv(columns: dict) -> bytes:
    names = ",".join(f'"{name}"' if "," in name else name for name in columns)
    return "\n".join([names, *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]).encode()


def as_parquet(columns: dict, **metadata: str) -> bytes:
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns).replace_schema_metadata(metadata or None), file)
    return file.getvalue()


WRITERS = {"csv": as_csv, "parquet": as_parquet}


def read_in(directory, data: bytes, format_: str, **options):
    """The manifest, and the codes of warnings."""
    manifest = ingest([data], directory, InputOptions(format_, **options))
    return manifest, [warning["code"] for warning in read_profile(directory).warnings]


def code_of(directory, data: bytes, format_: str, **options) -> str:
    with pytest.raises(InputError) as caught:
        read_in(directory, data, format_, **options)
    assert caught.value.hint
    return caught.value.code


@pytest.mark.parametrize("format_", WRITERS)
@pytest.mark.parametrize(
    "options",
    [
        {"columns": '"a,b",c'},
        {"columns": ["c", "a,b", "label"]},
        {"columns": "-2,5"},
        {"drop_columns": "id, day"},
        {"drop_columns": ["1", "day"]},
        {"columns": "id,4,c", "drop_columns": "id"},
    ],
)
def test_columns_are_chosen_by_name_or_number(tmp_path, format_, options):
    manifest, warned = read_in(tmp_path / "data", WRITERS[format_](TABLE), format_, **options)
    assert manifest.input["columns"] == ["a,b", "c"] and manifest.input["dropped"] == ["id", "day"]
    assert manifest.input["label_column"] == "label" and not warned
    rows, _ = stored_rows(tmp_path / "data")
    assert manifest.n_features == 2 and sorted(rows.values.tolist()) == sorted([*TABLE["a,b"], *TABLE["c"]])


@pytest.mark.parametrize("format_", WRITERS)
def test_later_tables_follow(tmp_path, format_):
    read_in(tmp_path / "data", WRITERS[format_](TABLE), format_, drop_columns="id,day")
    for columns in (["c", "label", "a,b"], ["day", "c", "label", "a,b", "id"]):
        data = WRITERS[format_]({name: TABLE[name] for name in columns})
        append_rows([data], tmp_path / "data", InputOptions(format_), InputLimits(), 1)
    data = WRITERS[format_]({**TABLE, "new": TABLE["c"]})
    with pytest.raises(InputError) as caught:
        append_rows([data], tmp_path / "data", InputOptions(format_), InputLimits(), 1)
    assert caught.value.code == "columns_differ" and "'new'" in caught.value.message
    append_rows([data], tmp_path / "data", InputOptions(format_, drop_columns="new"), InputLimits(), 1)
    rows, _ = stored_rows(tmp_path / "data")
    assert read_manifest(tmp_path / "data").n_rows == 80
    assert sorted(rows.values.tolist()) == sorted(4 * [*TABLE["a,b"], *TABLE["c"]])


@pytest.mark.parametrize("format_", WRITERS)
def test_faults_of_choosing(tmp_path, format_):
    data = WRITERS[format_](TABLE)
    for options, code in (
        ({"columns": "x"}, "columns_missing"),
        ({"drop_columns": "9"}, "drop_columns_missing"),
        ({"drop_columns": "label"}, "same_column"),
        ({"columns": "c", "categorical": "day"}, "same_column"),
        ({"columns": "label"}, "columns_missing"),
    ):
        assert code_of(tmp_path / "data", data, format_, **options) == code


@pytest.mark.parametrize("format_", WRITERS)
def test_columns_of_words_are_categories_without_being_named(tmp_path, format_):
    table = {"y": [0, 1, 0, 1], "x": [1, 2, 3, 5], "city": ["Rome", "New York", "Rome", "Oslo"]}
    manifest, _ = read_in(tmp_path / "data", WRITERS[format_](table), format_)
    named, _ = read_in(tmp_path / "named", WRITERS[format_](table), format_, categorical="city")
    assert manifest.input["categorical"] == ["city"] and manifest.input == named.input


@pytest.mark.parametrize("word", ["1O", "1'234", "$12", "20%", "2024-01-31", "it is a text"])
def test_a_typo_a_date_or_a_text_makes_no_categories(tmp_path, word):
    for column in ([1, word, 3], *([[word] * 3] if word not in ("1O", "it is a text") else [])):
        data = WRITERS["csv"]({"y": [0, 1, 0], "x": column})
        assert code_of(tmp_path / "data", data, "csv") == "not_numeric"


def test_documents_in_a_table_leave_no_columns_to_drop(tmp_path):
    documents = b"label,text,x\n1,some words,2\n"
    assert code_of(tmp_path / "data", documents, "csv", text_column="text", drop_columns="x") == "option_unused"


@pytest.mark.parametrize("format_", WRITERS)
def test_what_looks_like_no_feature_is_warned_of(tmp_path, format_):
    manifest, warned = read_in(tmp_path / "data", WRITERS[format_](TABLE), format_, categorical="day")
    assert warned == ["columns_like_ids", "columns_like_dates"] and manifest.n_features == 4
    shuffled = np.random.default_rng(0).permutation(20).tolist()
    columns = {
        "label": TABLE["label"], "user_id": [k * k for k in range(20)], "n": shuffled,
        "word": [f"w{k}" for k in range(20)], "orderId": [987_654_321 + 3 * k for k in range(20)],
        "when": [20240100 + k + 1 for k in range(20)], "x": [float(k * k) for k in range(20)], "same": [3] * 20,
    }  # fmt: skip
    read_in(tmp_path / "other", WRITERS[format_](columns), format_, categorical="word")
    told = {each["code"]: each["message"] for each in read_profile(tmp_path / "other").warnings}
    assert (
        "'user_id', 'n', 'orderId', 'word'" in told["columns_like_ids"] and "drop_columns" in told["columns_like_ids"]
    )
    assert "'when'." in told["columns_like_dates"]
    _, warned = read_in(tmp_path / "few", b"label,a\n1,1\n0,2\n1,3\n", "csv")
    assert not warned
    _, warned = read_in(
        tmp_path / "gap", b"label,a,b,w\n1,1,,u\n0,2,5,v\n", "csv", missing="indicator", categorical="w"
    )
    (told,) = read_profile(tmp_path / "gap").warnings
    assert warned == ["indicators_unused"] and "where one is: 'a'. " in told["message"]


@pytest.mark.parametrize(
    ("name", "data", "format_"),
    [
        ("Unnamed: 0", as_csv({"": range(4), "label": [0, 1, 0, 1], "a": [5, 5, 6, 7]}), "csv"),
        ("Unnamed: 0", as_csv({"Unnamed: 0": range(4), "label": [0, 1, 0, 1], "a": [5, 5, 6, 7]}), "csv"),
        ("__index_level_0__", as_csv({"label": [0, 1, 0, 1], "a": [5, 5, 6, 7], "__index_level_0__": range(4)}), "csv"),
        ("__index_level_0__", as_parquet({"label": [0, 1], "a": [5, 6], "__index_level_0__": [0, 1]}), "parquet"),
        ("k", as_parquet({"label": [0, 1], "a": [5, 6], "k": [0, 1]}, pandas='{"index_columns": ["k"]}'), "parquet"),
    ],
)
def test_an_index_of_pandas_is_left_out_and_said(tmp_path, name, data, format_):
    manifest, warned = read_in(tmp_path / "data", data, format_)
    assert (manifest.input["columns"], manifest.input["dropped"], warned) == (["a"], [name], ["index_left_out"])
    kept, warned = read_in(tmp_path / "kept", data, format_, columns=[name, "a"])
    assert sorted(kept.input["columns"]) == sorted([name, "a"]) and "index_left_out" not in warned
    after = append_rows([data], tmp_path / "data", InputOptions(format_), InputLimits(), 1)
    assert after.n_rows == 2 * manifest.n_rows and after.n_features == 1


def test_names_take_time_in_proportion_and_have_a_bound():
    names = ",".join(f"f{k}" for k in range(50_000))
    text = f"label,{names}\n1,".encode() + b",".join([b"2"] * 50_000) + b"\n"
    parser = CsvParser(InputOptions("csv", drop_columns="f7"), InputLimits())
    assert sum(map(len, parser.parse_chunks([text]))) == 1
    further = CsvParser(InputOptions("csv", like=parser.input), InputLimits(), None, ToPredict())
    backwards = ",".join(f"f{k}" for k in reversed(range(50_000)))
    (rows,) = further.parse_chunks([f"{backwards}\n".encode() + b",".join([b"2"] * 50_000) + b"\n"])
    assert rows.nnz == 49_999
    with refused(InputError, "too_many_columns"):
        list(CsvParser(InputOptions("csv"), InputLimits()).parse_chunks([b"1," * MOST_COLUMNS + b"1\n"]))
