"""Rows in JSON are the same as in LIBSVM text; other JSON is refused."""

import pytest

from streamsvm.reader.limits import Limits
from streamsvm.reader.parsers.libsvm.parser import LibsvmParser
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.predicting.json_rows import json_rows, json_tables

BAD_ROWS = {
    "no rows": ({}, "wrong_type", {}),
    "rows is an object": ({"rows": {}}, "wrong_type", {}),
    "empty": ({"rows": []}, "no_rows", {}),
    "another field": ({"rows": [{}], "strict": True}, "unknown_field", {}),
    "a row is a list": ({"rows": [{}, [1]]}, "wrong_type", {"row": 2}),
    "a row is an object": ({"rows": [[1, 2, 3], {}]}, "wrong_type", {"row": 2}),
    "a short array": ({"rows": [[1, 2, 3], [1, 2]]}, "column_count", {"row": 2}),
    "a long array": ({"rows": [[1, 2, 3, 4]]}, "column_count", {"row": 1}),
    "null in an array": ({"rows": [[1, 2, 3], [1, None, 3]]}, "wrong_type", {"row": 2}),
    "true in an array": ({"rows": [[True, 2, 3]]}, "wrong_type", {"row": 1}),
    "a name": ({"rows": [{"a": 1}]}, "bad_index", {"row": 1}),
    "a sign": ({"rows": [{"+1": 1}]}, "bad_index", {"row": 1}),
    "digits of another script": ({"rows": [{"\u0663": 1}]}, "bad_index", {"row": 1}),
    "feature 0": ({"rows": [{"0": 1}]}, "index_zero", {"row": 1}),
    "a large feature": ({"rows": [{"2147483648": 1}]}, "index_too_large", {"row": 1}),
    "twice": ({"rows": [{"1": 1, "01": 2}]}, "index_duplicate", {"row": 1}),
    "text": ({"rows": [{"1": "1"}]}, "wrong_type", {"row": 1}),
    "true": ({"rows": [{"1": True}]}, "wrong_type", {"row": 1}),
    "null": ({"rows": [{"1": None}]}, "wrong_type", {"row": 1}),
    "beyond float32": ({"rows": [{"1": 1}, {"1": -3.5e38}]}, "row_overflow", {"row": 2}),
    "beyond float64": ({"rows": [{"1": 10**400}]}, "row_overflow", {"row": 1}),
}


def test_rows_are_those_of_the_same_text():
    found = json_rows({"rows": [{"17": 0.1, "3": 2}, {}, {"2147483647": -3.4e38}]}, 1, 3)
    text = b"0 3:2 17:0.1\n0\n0 2147483647:-3.4e38\n"
    (expected,) = LibsvmParser(limits=Limits(max_features=2**31)).parse_chunks([text])
    for name in ("label", "indptr", "indices", "values"):
        one, other = getattr(found, name), getattr(expected, name)
        assert one.dtype == other.dtype and one.tolist() == other.tolist()


def test_feature_0_is_there_if_features_count_from_it():
    assert json_rows({"rows": [{"0": 1.5}]}, 0, 3).indices.tolist() == [0]


@pytest.mark.parametrize("base", [0, 1])
def test_an_array_has_the_features_in_their_order(base):
    arrays, objects = [[1.5, 0], [3, 4]], [{str(base): 1.5, str(base + 1): 0}, {str(base): 3, str(base + 1): 4}]
    found, expected = (json_rows({"rows": rows}, base, 2) for rows in (arrays, objects))
    assert found.indices.tolist() == expected.indices.tolist() == [base, base + 1] * 2
    assert found.values.tolist() == expected.values.tolist()


@pytest.mark.parametrize("has_names", [True, False])
def test_an_array_has_the_columns_in_the_order_of_training(has_names):
    """A column that is missing takes a feature of its own here, so that there are more features than columns."""
    table = {"columns": ["b", "a"], "categorical": [], "missing": "indicator", "categories": "dictionary"}
    arrays = json_tables({"rows": [[1, 2], [3, None]]}, {**table, "has_names": has_names}, 1)
    objects = json_tables({"rows": [{"a": 2, "b": 1}, {"b": 3}]}, {**table, "has_names": True}, 1)
    assert arrays.rows.values.tolist() == objects.rows.values.tolist() == [1, 2, 3, 1]
    assert arrays.rows.indices.tolist() == objects.rows.indices.tolist()
    with pytest.raises(ServiceError) as refused:
        json_tables({"rows": [[1, 2], [1]]}, {**table, "has_names": has_names}, 1)
    assert (refused.value.code, refused.value.at) == ("column_count", {"row": 2})


@pytest.mark.parametrize("case", BAD_ROWS)
def test_what_are_no_rows(case):
    fields, code, at = BAD_ROWS[case]
    with pytest.raises(ServiceError) as caught:
        json_rows(fields, 1, 3)
    assert (caught.value.code, caught.value.at) == (code, at)


def test_what_rows_leave_out_has_bounds():
    columns = [f"c{number}" for number in range(4096)]
    table = {"columns": columns, "categorical": [], "has_names": True, "missing": "zero", "categories": "dictionary"}
    with pytest.raises(ServiceError) as refused:
        json_tables({"rows": [dict.fromkeys(columns, 1.0), *[{}] * 4096]}, table, 1)
    assert refused.value.code == "body_too_large"
