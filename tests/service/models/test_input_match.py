"""Models are evaluated only on rows made as in training; features of tables match by column and word."""

import numpy as np
import pytest

from streamsvm.reader.parsers.tables.to_predict import named_numbers
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.predicting.input_match import match_dataset
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.models.model_file import Model
from tests.raw_models import STRINGS, TABLE

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
    with pytest.raises(ServiceError, match=what) as caught:
        matched(model, dataset, n_model=3)
    assert caught.value.code == code and caught.value.hint
