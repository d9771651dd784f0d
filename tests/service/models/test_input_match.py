"""Models are evaluated only on rows that are made as theirs were."""

import pytest

from service.errors import ServiceError
from service.models.input_match import check_input
from tests.raw_models import STRINGS, TABLE

MORE = {**TABLE, "dictionary": {"proto": {"tcp": 0, "udp": 2, "icmp": 3}, "flag": {"S0": 1}}}
SAME = [
    (None, None),
    (TABLE, TABLE),
    (TABLE, {**TABLE, "format": "parquet", "places": [3, 1, 2], "label_column": "y"}),
    (TABLE, MORE),
    (MORE, TABLE),
    (TABLE, None),
    (STRINGS, {**STRINGS, "string_column": "seq"}),
]
OTHERS = [
    (TABLE, {**TABLE, "missing": "error"}, "missing"),
    (TABLE, {**TABLE, "columns": ["proto", "flag", "size"]}, "columns"),
    (TABLE, {**TABLE, "dictionary": {"proto": {"udp": 0, "tcp": 2}, "flag": {"S0": 1}}}, "dictionary"),
    (TABLE, {**TABLE, "dictionary": {"proto": {"new": 0}, "flag": {"S0": 1}}}, "dictionary"),
    (STRINGS, {**STRINGS, "length": 5}, "length"),
    (STRINGS, None, "alphabet"),
    (STRINGS, TABLE, "alphabet"),
    (None, TABLE, "categor"),
]


@pytest.mark.parametrize(("model", "dataset"), SAME)
def test_rows_that_are_made_alike(model, dataset):
    check_input(model, dataset)


@pytest.mark.parametrize(("model", "dataset", "what"), OTHERS)
def test_rows_that_are_not(model, dataset, what):
    with pytest.raises(ServiceError, match=f"differ in {what}") as caught:
        check_input(model, dataset)
    assert caught.value.code == "input_mismatch"
