"""JSON lines: the rows of the CSV with the same values, every fault with its line and byte, and late keys."""

import json
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables import json_lines
from streamsvm.reader.parsers.tables.json_lines import JsonlParser, names_line
from streamsvm.reader.parsers.tables.matching import ToPredict
from tests.contracts.problems import joined
from tests.refusals import fault_of, refused


def lines_of(rows: list) -> bytes:
    return "".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in rows).encode()


def to_predict(options, limits):
    return JsonlParser(options, limits, None, ToPredict())


def read(data: bytes, size: int = 1 << 20, limits: InputLimits | None = None, kind=JsonlParser, **options):
    parser = kind(InputOptions("jsonl", **options), limits or InputLimits())
    return parser, joined(list(parser.parse_chunks(data[k : k + size] for k in range(0, len(data), size))))


fault = partial(fault_of, read)


ROWS = [{"a": k / 7, "b": -k, "label": k % 2} for k in range(30)]


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_rows_are_those_of_the_objects(size):
    parser, rows = read(lines_of(ROWS), size=size)
    assert rows.label.tolist() == [row["label"] for row in ROWS]
    expected = [value for row in ROWS for value in (row["a"], row["b"]) if value]
    assert np.array_equal(rows.values, np.float32(expected))
    assert (parser.rows, parser.max_index, parser.input["columns"]) == (30, 2, ["a", "b"])


def test_keys_in_any_order_missing_keys_and_null_are_values_of_their_columns():
    rows = ['{"a":1,"label":0,"w":"red"}', "", '{"label":1,"a":null}', '\t{"w":"two\\nlines","a":2.5,"label":0} ']
    parser, found = read(lines_of(rows), categorical="all", missing="zero", label_type="number")
    assert found.label.tolist() == [0, 1, 0] and found.values.tolist() == [1, 1, 1, 2.5, 1]
    assert parser.input["dictionary"] == {"w": {"red": 0, "": 1, "two\nlines": 2}}


def test_strings_of_digits_are_words():
    parser, _ = read(lines_of([{"code": "01", "label": 1}, {"code": "02", "label": 0}]), categorical="all")
    assert parser.input["dictionary"] == {"code": {"01": 0, "02": 1}}


def test_large_and_exact_numbers():
    text = '{"label":1e300,"a":0.1,"b":123456789012345678901234567890,"c":-1E-7}\n'
    _, rows = read(text.encode())
    assert rows.label.tolist() == [1e300]
    assert np.array_equal(rows.values, np.float32([0.1, 123456789012345678901234567890, -1e-7]))


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('{"a":1,"b":2,"label":NaN}', "not_json"),
        ('{"a":1,"b":2,"label":1', "not_json"),
        ("[1, 2]", "not_json"),
        ('{"a":"\udcff"}', "not_json"),
        ('{"a":1,"b":[2],"label":1}', "nested_value"),
        ('{"a":1,"b":2,"label":1,"late":3}', "late_key"),
        ('{"a":1,"label":1}', "missing_value"),
        ('{"a":1,"b":"word","label":1}', "not_numeric"),
        ('{"a":1,"b":1e39,"label":1}', "row_overflow"),
        ('{"a":1,"b":1,"label":null}', "missing_value"),
    ],
)
@pytest.mark.parametrize("before", [3, 40_000])
def test_a_fault_has_its_line_and_byte(line, code, before):
    good = lines_of([{"a": 1, "b": 2, "label": 0}]) * before
    place = (before - 1) * 29
    assert len(good) == before * 29
    if code == "late_key" and before == 3:
        return  # it is among the first objects
    data = good[:place] + b"\n" + line.encode(errors="surrogateescape") + b"\n" + good[place:]
    found = fault(data)
    assert (found.code, found.line, found.byte) == (code, place // 29 + 2, place + 1)
    parser, rows = read(data, on_bad_row="skip")
    assert len(rows) == before and [(each.code, each.line) for each in parser.rejected.first] == [(code, found.line)]
    assert parser.rejected.rows == 1


def test_documents_keep_their_line_ends_and_faults_their_lines():
    rows = [{"text": f"one\ntwo {k}\r\nthree", "label": k % 2} for k in range(40)]
    parser, found = read(lines_of(rows), text_column="text", analyzer="char")
    assert len(found) == 40
    rows[20]["label"] = "x"
    broken = fault(lines_of(rows), text_column="text", label_type="number")
    assert broken.line == 21
    rows[20]["label"], rows[30]["text"] = 0, None
    parser, found = read(lines_of(rows), text_column="text", on_bad_row="skip")
    assert parser.rows + parser.rejected.rows == 40


def test_one_column_of_blanks_gives_a_row_each():
    rows = [{"a": 1}, {"a": None}, {}, {"a": " "}, {"a": ""}, {"a": 2}]
    like = {"format": "csv", "columns": ["a"], "has_names": True, "n_columns": 1, "places": [0], "categorical": [],
            "missing": "zero", "categories": "dictionary"}  # fmt: skip
    _, found = read(lines_of(rows), kind=to_predict, like=like)
    assert len(found) == 6 and found.values.tolist() == [1, 2]


def test_late_keys_that_the_model_does_not_know_are_passed_over():
    like = {"format": "csv", "columns": ["a", "b"], "has_names": True, "n_columns": 2, "places": [0, 1],
            "categorical": [], "missing": "zero", "categories": "dictionary"}  # fmt: skip
    many = [{"a": 1, "b": 2}] * 80_000
    _, found = read(lines_of([*many, {"a": 3, "b": 4, "c": 5}]), kind=to_predict, like=like)
    assert found.values[-2:].tolist() == [3, 4]
    assert fault(lines_of([*[{"a": 1, "c": 0}] * 80_000, {"a": 3, "b": 4}]), kind=to_predict, like=like).code in (
        "column_missing",
        "late_key",
    )


def test_the_line_of_names_that_ranges_begin_with():
    rows = lines_of([{"b": 1, "label": 1}, {"a": 2, "b": 3, "label": 0}])
    assert json.loads(names_line(rows)) == ["b", "label", "a"]
    parser, found = read(names_line(rows) + b'{"a":5,"label":1}\n', missing="zero")
    assert parser.input["columns"] == ["b", "a"] and found.values.tolist() == [5.0]


def test_a_line_may_be_long_and_too_long(monkeypatch):
    monkeypatch.setattr(json_lines, "HEAD_BYTES", 64)
    row = {f"f{k}": k for k in range(100)} | {"label": 1}
    _, rows = read(lines_of([row, row]))
    assert len(rows) == 2 and rows.nnz == 198
    assert fault(lines_of([row, row]), limits=InputLimits(max_line_bytes=500)).code == "line_too_long"


def test_keys_of_which_each_object_has_few_are_a_table_and_a_new_key_in_each_is_none():
    few = [{"label": k % 2} | {f"k{(7 * k + 199 * j) % 1000}": 1 for j in range(5)} for k in range(3000)]
    _, rows = read(lines_of(few), missing="zero")
    assert (len(rows), rows.nnz) == (3000, 15_000)
    with pytest.raises(InputError, match="most values of 20001 columns") as caught:
        read(lines_of([{f"k{k}": 1, "label": 0} for k in range(20_000)]), missing="zero")
    assert caught.value.code == "too_many_columns" and "LIBSVM" in caught.value.hint


def test_json_over_several_lines_is_refused(tmp_path):
    with pytest.raises(InputError, match="not an object a line"):
        ingest([json.dumps(ROWS[0], indent=1).encode()], tmp_path / "a")
    for nothing in (b"", b"\n\n", b"{}\n"):
        with refused(InputError, "no_rows"):
            ingest([nothing], tmp_path / "b", InputOptions("jsonl"))


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
VALUES = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | TEXTS


@settings(max_examples=150)
@given(
    rows=st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, min_size=1), min_size=1, max_size=8),
    size=st.integers(1, 50),
)
def test_any_objects_become_rows_or_faults(rows, size):
    data = lines_of([{"label": 1, **row} for row in rows])
    parser = JsonlParser(InputOptions("jsonl", categorical="all", missing="zero", on_bad_row="skip"), InputLimits())
    try:
        list(parser.parse_chunks(data[k : k + size] for k in range(0, len(data), size)))
    except InputError as error:
        assert error.code in ("no_rows", "too_many_features", "duplicate_column")
        return
    assert parser.rows + parser.rejected.rows == len(rows)
    assert all(1 <= each.line <= len(rows) for each in parser.rejected.first)
