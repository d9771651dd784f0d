"""Tables of very many columns to predict: the names of the last table are known, and nothing else is taken for them."""

import numpy as np
import pytest

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables import to_predict
from streamsvm.reader.parsers.tables.csv import CsvParser
from streamsvm.reader.parsers.tables.to_predict import ToPredict, named_numbers
from streamsvm.storage.machine.long_work import LARGE_BYTES

NAMES = [f"feature_{number:06d}" for number in range(1 + LARGE_BYTES // 15)]


@pytest.fixture
def matched(monkeypatch):
    """The tables whose names have been matched."""
    seen = []

    def match_columns(*arguments):
        seen.append(arguments)
        return original(*arguments)

    original = to_predict.match_columns
    monkeypatch.setattr(to_predict, "match_columns", match_columns)
    return seen


def values(names, like, **options):
    """The features, by the model's numbers, of a row that has 1, 2, 3, ... below its names; unknown names."""
    text = ",".join(names) + "\n" + ",".join(str(1.0 + number) for number in range(len(names))) + "\n"
    parser = CsvParser(InputOptions("csv", like=like, **options), Limits(), None, ToPredict())
    (rows,) = parser.parse_chunks([text.encode()])
    row = np.zeros(len(like["columns"]))
    row[rows.indices - parser.index_base] = rows.values
    return row.tolist(), parser.to_predict.match.unknown


def test_names_are_matched_once(matched):
    like, in_order = named_numbers(NAMES), [1.0 + number for number in range(len(NAMES))]
    assert [values(NAMES, like) for _ in range(3)] == [(in_order, [])] * 3
    assert len(matched) == 1


def test_other_names_options_and_models_are_matched_anew(matched):
    like, in_order = named_numbers(NAMES), [1.0 + number for number in range(len(NAMES))]
    swapped = [NAMES[1], NAMES[0], *NAMES[2:]]
    for _ in range(2):
        assert values(NAMES, like) == (in_order, [])
        assert values(swapped, like) == ([2.0, 1.0, *in_order[2:]], [])
        assert values([*NAMES, "other"], like) == (in_order, ["other"])
        assert values(["label", *NAMES], like) == ([each + 1 for each in in_order], [])
        assert values(NAMES, named_numbers(swapped)) == ([2.0, 1.0, *in_order[2:]], [])
        with pytest.raises(InputError, match="lacks columns"):
            values([*NAMES[1:], "other"], like)
        with pytest.raises(InputError, match="stands twice"):
            values([*NAMES, NAMES[0]], like)
        assert values(NAMES, like, header="yes") == (in_order, [])
    assert len(matched) == 14


def test_short_lines_are_read_alike(matched):
    like = named_numbers(["a", "b"])
    assert [values(["b", "a"], like) for _ in range(2)] == [([2.0, 1.0], [])] * 2
    assert len(matched) == 2
