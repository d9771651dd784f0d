"""Rows to judge or predict: as in training, columns match by name and word; JSON is read as LIBSVM text is."""

import numpy as np
import pytest

from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.libsvm import LibsvmParser
from streamsvm.reader.parsers.tables.matching import named_numbers
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.predicting.input_match import match_dataset
from streamsvm.service.models.predicting.raw_rows import json_rows, json_tables
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.models.model_file import Model
from tests.raw_models import STRINGS, TABLE
from tests.refusals import refused

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
# The model's: size, proto=tcp, flag=S0, proto=udp, from 1
MORE = {**TABLE, "dictionary": {"proto": {"tcp": 0, "udp": 2, "icmp": 3}, "flag": {"S0": 1}}}
AGAIN = {**TABLE, "dictionary": {"proto": {"udp": 0, "tcp": 2}, "flag": {"S0": 1}}}
UNNAMED = {**TABLE, "has_names": False, "columns": ["2", "3", "4"], "categorical": ["2", "4"]}
NUMBERS = named_numbers(["a", "b", "c"])
PLACES = {**NUMBERS, "has_names": False, "columns": ["2", "3", "4"]}
BEYOND, OUT = 9, -1


def matched(model, dataset, base: int = 1, n_model: int = 4, n_dataset: int = 4):
    """The model's number of each feature of the dataset: OUT for an unknown column, BEYOND for an unknown word."""
    of_model = Model(np.ones(n_model), (1.0, -1.0), 1, None, 0.0, {} if model is None else {"input": model})
    manifest = Manifest("", base, n_dataset, 1, 1, {}, 1, 1, {}, (), input=dataset)
    found = match_dataset(of_model, manifest)
    if found.numbers is None:
        return None, found.unknown_columns
    assert len(set(found.numbers.tolist())) == len(found.numbers)
    numbers = [max(OUT, number if number <= n_model else BEYOND) for number in found.numbers[base:].tolist()]
    return numbers, found.unknown_columns


@pytest.mark.parametrize(
    ("model", "dataset"), [(None, None), (TABLE, None), (STRINGS, {**STRINGS, "string_column": "seq"})]
)
def test_features_that_are_numbered(model, dataset):
    assert matched(model, dataset) == (None, [])


@pytest.mark.parametrize(
    ("dataset", "numbers", "unknown"),
    [
        (TABLE, [1, 2, 3, 4], []),
        ({**TABLE, "format": "parquet", "places": [3, 1, 2], "label_column": "y"}, [1, 2, 3, 4], []),
        ({**TABLE, "columns": ["flag", "size", "proto"], "categorical": ["flag", "proto"]}, [1, 2, 3, 4], []),
        (MORE, [1, 2, 3, 4, BEYOND], []),
        (AGAIN, [1, 4, 3, 2], []),
        ({**TABLE, "columns": ["id", "proto", "size", "flag"]}, [OUT, 1, 2, 3, 4], ["id"]),
        ({**TABLE, "dictionary": {"proto": {"new": 0}, "flag": {"S0": 1}}}, [1, BEYOND, 3], []),
    ],
)
def test_columns_and_words(dataset, numbers, unknown):
    assert matched(TABLE, dataset, n_dataset=len(numbers)) == (numbers, unknown)


def test_indicators_and_hashed_words():
    model = {**TABLE, "columns": ["a", "b", "w"], "categorical": ["w"], "missing": "indicator"}
    model = {**model, "categories": "hashed", "n_features": 2}
    del model["dictionary"]
    dataset = {**model, "columns": ["new", "b", "w", "a"]}
    # new, b, a, whether they are missing, two for hashes
    numbers, unknown = matched(model, dataset, n_model=6, n_dataset=8)
    assert (numbers, unknown) == ([OUT, 2, 1, OUT, 4, 3, 5, 6], ["new"])


@pytest.mark.parametrize("base", [0, 1])
def test_columns_of_numbers(base):
    """A model from elsewhere may number its features from another base."""
    assert matched(NUMBERS, named_numbers(["c", "a", "b"]), base, 3, 3) == ([3, 1, 2], [])
    assert matched(PLACES, {**PLACES, "columns": ["1", "2", "4"], "label_column": "3"}, base, 3, 3) == ([1, 2, 3], [])
    assert matched(None, NUMBERS, base, 3, 3) == ([1, 2, 3], [])


@pytest.mark.parametrize(
    ("model", "dataset", "code", "what"),
    [
        (TABLE, {**TABLE, "missing": "error"}, "input_mismatch", "differ in missing"),
        (TABLE, {**TABLE, "categorical": ["proto"]}, "input_mismatch", "differ in categorical"),
        (None, TABLE, "input_mismatch", "differ in categorical"),
        (STRINGS, {**STRINGS, "length": 5}, "input_mismatch", "differ in length"),
        (STRINGS, None, "input_mismatch", "differ in alphabet"),
        (STRINGS, TABLE, "input_mismatch", "differ in alphabet"),
        (TABLE, {**TABLE, "columns": ["proto", "flag"]}, "column_missing", "size"),
        (TABLE, UNNAMED, "header_differs", "by name"),
        (PLACES, NUMBERS, "header_differs", "without names"),
        (None, named_numbers(["a", "b", "c", "d"]), "column_count", "takes 3"),
    ],
)
def test_rows_that_are_made_otherwise(model, dataset, code, what):
    with refused(ServiceError, code, match=what):
        matched(model, dataset, n_model=3)


def test_rows_are_those_of_the_same_text():
    found = json_rows({"rows": [{"17": 0.1, "3": 2}, {}, {"2147483647": -3.4e38}]}, 1, 3)
    text = b"0 3:2 17:0.1\n0\n0 2147483647:-3.4e38\n"
    (expected,) = LibsvmParser(InputOptions(), InputLimits(max_features=2**31)).parse_chunks([text])
    for name in ("label", "indptr", "indices", "values"):
        one, other = getattr(found, name), getattr(expected, name)
        assert one.dtype == other.dtype and one.tolist() == other.tolist()


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
    with refused(ServiceError, "body_too_large"):
        json_tables({"rows": [dict.fromkeys(columns, 1.0), *[{}] * 4096]}, table, 1)
