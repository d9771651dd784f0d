"""Ingest finds faults of the data in the first rows where they were put in, and nowhere else."""

import numpy as np
import pytest

from streamsvm.reader.ingest.run import MOST_COLUMNS, MOST_ROWS, ingest
from streamsvm.reader.options import InputOptions
from streamsvm.storage.blocks.manifest import read_profile
from tests.contracts.problems import libsvm_text

RNG = np.random.default_rng(0)
N = 400
Y = np.where(np.arange(N) % 2, 1.0, -1.0)
X = RNG.normal(size=(N, 3))
PLAIN = X + 0.5 * Y[:, np.newaxis]
LEAK = np.column_stack([PLAIN, Y + 0.2 * RNG.normal(size=N)])


def table(X, y, names):
    lines = [",".join(["label", *names]), *(",".join(map(str, [label, *row])) for label, row in zip(y, X, strict=True))]
    return "\n".join(lines).encode() + b"\n"


def found(directory, text):
    ingest([text], directory / "data", InputOptions())
    return {each["code"]: each["message"] for each in read_profile(directory / "data").warnings}


def test_a_clean_table_is_not_warned_of(tmp_path):
    assert found(tmp_path, table(PLAIN, Y, "abc")) == {}


def test_a_column_with_one_value_is_named(tmp_path):
    told = found(tmp_path, table(np.column_stack([PLAIN, np.full(N, 7.5)]), Y, "abcd"))
    assert told.keys() == {"columns_constant"} and "'d'" in told["columns_constant"]
    assert "drop_columns" in told["columns_constant"]


def test_a_column_that_changes_after_the_first_rows_is_not(tmp_path):
    rows, y = np.resize(PLAIN, (MOST_ROWS + 100, 3)), np.resize(Y, MOST_ROWS + 100)
    last = np.where(np.arange(len(y)) < MOST_ROWS, 7.5, -7.5)
    assert found(tmp_path, table(np.column_stack([rows, last]), y, "abcd")) == {}


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_column_that_is_nearly_the_label_is_named(tmp_path, sign):
    told = found(tmp_path, table(sign * LEAK, Y, "abcd"))
    assert told.keys() == {"columns_like_labels"} and "'d'" in told["columns_like_labels"]


def test_so_is_a_feature_of_rows_without_names(tmp_path):
    assert "feature 4" in found(tmp_path, libsvm_text(LEAK, Y, 1))["columns_like_labels"]


def test_a_column_says_nothing_of_few_rows(tmp_path):
    assert found(tmp_path, table(LEAK[:40], Y[:40], "abcd")) == {}


def test_equal_rows_of_several_classes_are_counted(tmp_path):
    rows = np.concatenate([PLAIN, PLAIN[:20], PLAIN[:20]])
    y = np.concatenate([Y, -Y[:20], -Y[:20]])
    assert found(tmp_path, table(rows, y, "abc"))["rows_contrary"].startswith(f"{20 / 440:.1%} of the rows are equal")


def test_of_many_rows_the_first_are_asked(tmp_path):
    rows, y = np.resize(LEAK, (MOST_ROWS + 100, 4)), np.resize(Y, MOST_ROWS + 100)
    assert f"of the first {MOST_ROWS:,} rows" in found(tmp_path, table(rows, y, "abcd"))["columns_like_labels"]


def test_long_rows_and_documents_are_not_asked(tmp_path):
    wide = np.zeros((N, MOST_COLUMNS + 1))
    wide[:, :4], wide[0, -1] = LEAK, 1.0
    assert found(tmp_path, libsvm_text(wide, Y, 1)) == {}


def test_numbers_to_predict_are_no_classes(tmp_path):
    assert found(tmp_path, table(LEAK, np.linspace(0.1, 9.7, N), "abcd")).keys() <= {"columns_constant"}
