"""Columns that are no features: labels that are strings, weights and groups, in every format that has them."""

import io

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from streamsvm.reader.errors import HINTS, InputError
from streamsvm.reader.ingest.append import append_rows
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.values import LabelNames, group_of, groups_of
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.blocks.manifest import read_manifest
from tests.contracts.problems import stored_rows
from tests.refusals import refused

NAMES = ["cat", "dog", "Ärger", "12", "a,b", 'say "x"', "NA"]


def as_csv(columns: dict) -> bytes:
    def field(value):
        text = repr(value) if isinstance(value, float) else str(value)
        return '"' + text.replace('"', '""') + '"' if set(text) & set('," ') else text

    lines = [",".join(columns), *(",".join(map(field, row)) for row in zip(*columns.values(), strict=True))]
    return "\n".join(lines).encode()


def as_parquet(columns: dict) -> bytes:
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


def as_npz(columns: dict) -> bytes:
    """The bytes of a table with one feature, x."""
    file, n = io.BytesIO(), len(columns["x"])
    further = {name: columns[option] for name, option in (("weight", "w"), ("group", "g")) if option in columns}
    np.savez(
        file, data=np.array(columns["x"], float), indices=np.zeros(n, int), indptr=np.arange(n + 1), shape=(n, 1),
        y=np.array(columns["y"], float), **further,
    )  # fmt: skip
    return file.getvalue()


WRITERS = {"csv": as_csv, "parquet": as_parquet, "npz": as_npz}


def options_of(format_: str, columns: dict, **more) -> InputOptions:
    if format_ == "npz":
        return InputOptions(format_, **more)
    told = {f"{name}_column": at for name, at in (("weight", "w"), ("group", "g"), ("label", "y")) if at in columns}
    return InputOptions(format_, **told, **more)


def read_in(tmp_path, format_, columns, **more):
    """The manifest, and {value of x: (label or name, weight, group)} of all rows."""
    manifest = ingest([WRITERS[format_](columns)], tmp_path / "data", options_of(format_, columns, **more))
    return manifest, kept(tmp_path / "data")


def kept(directory) -> dict:
    rows, names = stored_rows(directory)[0], read_manifest(directory).label_names
    assert np.array_equal(np.diff(rows.indptr), np.ones(len(rows)))
    labels = [names[int(label)] for label in rows.label] if names else rows.label.tolist()
    further = [column.tolist() if column is not None else [None] * len(rows) for column in (rows.weight, rows.group)]
    return dict(zip(rows.values.tolist(), zip(labels, *further, strict=True), strict=True))


def code_of(tmp_path, format_, columns, **more):
    """(code, line) of the fault."""
    with pytest.raises(InputError) as caught:
        read_in(tmp_path, format_, columns, **more)
    assert caught.value.code in HINTS
    return caught.value.code, caught.value.line


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.sampled_from(NAMES), st.floats(0, 2.0**99, width=32), st.sampled_from(["a", "7", "x long" * 9])),
        min_size=1, max_size=40,
    ).filter(lambda rows: any(weight for _, weight, _ in rows)),
    format_=st.sampled_from(["csv", "parquet"]),
)  # fmt: skip
def test_what_goes_in_comes_out(tmp_path_factory, rows, format_):
    labels, weights, groups = (list(column) for column in zip(*rows, strict=True))
    columns = {"y": labels, "x": [float(k + 1) for k in range(len(rows))], "w": weights, "g": groups}
    directory = tmp_path_factory.mktemp("aside")
    manifest, found = read_in(directory, format_, columns, label_type="string")
    assert found == {float(k + 1): (y, w, group_of(g)) for k, (y, w, g) in enumerate(rows)}
    assert manifest.label_names == tuple(sorted(set(labels)))
    assert {manifest.label_names[int(k)]: n for k, n in manifest.labels.items()} == {y: labels.count(y) for y in labels}
    assert (manifest.n_features, manifest.has_groups) == (1, True)
    assert manifest.weights is not None


@pytest.mark.parametrize("groups", [[7, 7, 8], ["ann", "ann", "b"]])
@pytest.mark.parametrize("format_", WRITERS)
def test_numbers_stay_numbers_and_groups_are_those_of_their_texts(tmp_path, format_, groups):
    columns = {"y": [1.0, -1.0, 0.5], "x": [1.0, 2.0, 3.0], "w": [0.5, 0.0, 2.0], "g": groups}
    manifest, found = read_in(tmp_path, format_, columns)
    one, _, two = map(group_of, map(str, groups))
    assert found == {1.0: (1.0, 0.5, one), 2.0: (-1.0, 0.0, one), 3.0: (0.5, 2.0, two)}
    assert (manifest.label_names, manifest.labels) == ((), {1.0: 1, -1.0: 1, 0.5: 1})
    assert (manifest.weights.total, manifest.weights.zeros, manifest.n_features) == (2.5, 1, 1)


@pytest.mark.parametrize("format_", WRITERS)
def test_a_table_without_them_has_none(tmp_path, format_):
    manifest, found = read_in(tmp_path, format_, {"y": [1.0, -1.0], "x": [1.0, 2.0]})
    assert found == {1.0: (1.0, None, None), 2.0: (-1.0, None, None)}
    assert (manifest.weights, manifest.label_names, manifest.has_groups) == (None, (), False)


@pytest.mark.parametrize("format_", WRITERS)
@pytest.mark.parametrize(
    ("weight", "code"),
    [(-1.0, "negative_weight"), (float("inf"), "value_not_finite"), (1e39, "row_overflow"), (float("nan"), None)],
)
def test_a_bad_weight_and_its_row(tmp_path, format_, weight, code):
    columns = {"y": [1.0, -1.0, 1.0], "x": [1.0, 2.0, 3.0], "w": [1.0, weight, 0.5]}
    code = code or ("value_not_finite" if format_ == "npz" else "missing_value")
    assert code_of(tmp_path, format_, columns) == (code, 2 + (format_ == "csv"))
    manifest, found = read_in(tmp_path, format_, columns, on_bad_row="skip")
    assert found == {1.0: (1.0, 1.0, None), 3.0: (1.0, 0.5, None)}
    assert (manifest.rejected_rows, manifest.weights.total) == (1, 1.5)


@pytest.mark.parametrize("format_", WRITERS)
def test_weights_that_are_all_zero_are_refused(tmp_path, format_):
    assert code_of(tmp_path, format_, {"y": [1.0, -1.0], "x": [1.0, 2.0], "w": [0.0, 0.0]}) == ("no_weight", None)


def test_a_fault_in_a_line_is_told_with_its_column(tmp_path):
    for text, code, line, column in (
        (b"y,w,x\n1,1,1\n-1,-2,1\n", "negative_weight", 3, 4),
        (b"y,w,x\n1,1,1\n-1,abc,1\n", "not_numeric", 3, 4),
        (b"y,w,x\n1,1,1\nabc,1,1\n", "not_numeric", 3, 1),
        (b"y,w,x\nabc,1,1\n,1,1\n", "missing_value", 3, 1),
        (b"y,w,x\nabc,1,1\n\xff,1,1\n", "not_utf8", 3, 1),
        (b"y,w,x\nabc,1,1\n" + b"a" * 257 + b",1,1\n", "label_too_long", 3, 1),
    ):
        with pytest.raises(InputError) as caught:
            ingest([text], tmp_path / "data", InputOptions("csv", weight_column="w"))
        assert (caught.value.code, caught.value.line, caught.value.column) == (code, line, column)
        assert caught.value.hint
        assert ("label_type=string" in caught.value.hint) == (code == "not_numeric" and column == 1)
        assert ("no option fills in" in caught.value.hint) == (code == "missing_value")


def test_the_first_label_decides_the_type(tmp_path):
    """After a string, numbers are strings; after a number, a string is a fault unless label_type is string."""
    _, found = read_in(tmp_path, "csv", {"y": ["a", 1, 2], "x": [1.0, 2.0, 3.0]})
    assert {label for label, _, _ in found.values()} == {"a", "1", "2"}
    assert code_of(tmp_path / "no", "csv", {"y": [1, "a", 2], "x": [1.0, 2.0, 3.0]}) == ("not_numeric", 3)
    columns = {"y": [1, "a", 2], "x": [1.0, 2.0, 3.0]}
    (tmp_path / "told").mkdir()
    _, found = read_in(tmp_path / "told", "csv", columns, label_type="string")
    assert {label for label, _, _ in found.values()} == {"1", "a", "2"}
    assert code_of(tmp_path / "no", "csv", {"y": ["a", "b"], "x": [1.0, 2.0]}, label_type="number")[0] == "not_numeric"
    assert code_of(tmp_path / "no", "parquet", {"y": ["a"], "x": [1.0]}, label_type="number")[0] == "column_type"


@pytest.mark.parametrize(
    ("text", "options", "rows"),
    [
        (b"5.1,3.5,setosa\n4.9,3.0,virginica\n", {"label_column": "-1"}, 2),
        (b"setosa,5.1\nvirginica,4.9\n", {}, 2),
        (b"g1,1,5.1\ng2,-1,4.9\n", {"label_column": "2", "group_column": "1"}, 2),
        (b"species,5,6\nsetosa,5.1,1\n", {"label_column": "1", "header": "yes"}, 1),
        (b"class,1\n1,5\n-1,6\n", {"label_column": "class"}, 2),
        (b"a,b,class\n5.1,3.5,setosa\n4.9,3.0,virginica\n", {}, 2),
    ],
)
def test_a_line_of_names_is_told_from_a_row(tmp_path, text, options, rows):
    assert ingest([text], tmp_path / "data", InputOptions("csv", **options)).n_rows == rows


def test_new_labels_come_after_old_ones(tmp_path):
    read_in(tmp_path, "csv", {"y": ["m", "c"], "x": [1.0, 2.0]})
    more = as_parquet({"y": ["z", "m", "a"], "x": [3.0, 4.0, 5.0]})
    after = append_rows([more], tmp_path / "data", InputOptions("parquet"), InputLimits(), threads=1)
    assert after.label_names == ("c", "m", "a", "z")
    assert after.labels == {1.0: 2, 0.0: 1, 2.0: 1, 3.0: 1}
    assert {x: label for x, (label, _, _) in kept(tmp_path / "data").items()} == dict(enumerate("mczma", start=1))


def test_labels_of_another_type_are_not_added(tmp_path):
    read_in(tmp_path, "csv", {"y": ["m", "c"], "x": [1.0, 2.0]})
    for text, options in (
        (b"1 1:1\n", InputOptions("libsvm")),
        (as_npz({"y": [1.0], "x": [1.0]}), InputOptions("npz")),
        (b"y,x\n1,1\n", InputOptions("csv", label_type="number")),
    ):
        with refused(InputError, "label_type"):
            append_rows([text], tmp_path / "data", options, InputLimits(), threads=1)
    ingest([b"1 1:1\n-1 1:2\n"], tmp_path / "numbers")
    with refused(InputError, "not_numeric"):
        append_rows([b"y,x\na,1\n"], tmp_path / "numbers", InputOptions("csv"), InputLimits(), threads=1)
    assert len(Dataset(tmp_path / "data").manifest.blocks) == 1


def test_names_that_are_no_classes_are_refused():
    names = LabelNames("string")
    assert names.numbers([str(k) for k in range(10_000)]).max() == 9_999
    with refused(InputError, "too_many_labels") as caught:
        names.numbers(["one more"])
    assert "label_column" in caught.value.hint


def test_a_column_has_one_use(tmp_path):
    for options in ({"weight_column": "y"}, {"weight_column": "x", "group_column": "x"}):
        with refused(InputError, "same_column"):
            ingest([b"y,x,z\n1,1,1\n"], tmp_path / "data", InputOptions("csv", **options))
    for option in ("weight_column", "group_column"):
        with pytest.raises(InputError) as caught:
            ingest([b"y,x,z\n1,1,1\n"], tmp_path / "data", InputOptions("csv", **{option: "none"}))
        assert (caught.value.code, option in caught.value.hint) == (f"{option}_missing", True)


def test_a_group_is_the_same_on_every_machine():
    assert group_of("7") == 0x828F78CECA1750E7
    assert groups_of([7, "7", b"7", np.int64(7)]).tolist() == [group_of("7")] * 4
    assert len(set(groups_of(range(1000)).tolist())) == 1000
