"""One rule for values: a column becomes the same features by every way in, and its words are known by every other."""

import io
import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, feather, orc, parquet
from sklearn.feature_extraction import FeatureHasher

from streamsvm.errors import InputWarning
from streamsvm.raw import predictions, raw_rows
from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.ranges import SourceInput
from streamsvm.reader.ingest.reading import Reading
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.values import groups_of
from streamsvm.reader.sources.files import list_files
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.models.predicting.raw_rows import json_tables
from streamsvm.sources import table
from streamsvm.storage.models.model_file import Model

BIG, FOUR = 2**53, range(4)


def times(hour, **step):
    return [datetime(2024, 1, 31, hour) + k * timedelta(**step) for k in FOUR]


OF_32, DECIMALS = pa.array([0.1, 1.0, 0.3, 2.5], pa.float32()), pa.array([Decimal(k).scaleb(-1) for k in FOUR])
BERLIN, IN_BERLIN = ZoneInfo("Europe/Berlin"), pa.timestamp("ms", "Europe/Berlin")
BY_4_HOURS = [f"2024-01-31 {hour}:00:00" for hour in (12, 16, 20)]
# The four values of a column, and the words that they are; None: the column is one of numbers.
KINDS = {
    "numbers": (pa.array([1.5, -2.0, 0.1, 7.0]), None),
    "numbers of 32 bits": (OF_32, None),
    "numbers of 64 bits": (pa.array([1, 2**63, 0, 255], pa.uint64()), None),
    "decimals as numbers": (DECIMALS, None),
    "bools as numbers": (pa.array([True, False, True, False]), None),
    "floats": (pa.array([1.5, -2.0, 0.1, 7.0]), ["1.5", "-2.0", "0.1", "7.0"]),
    "floats of 32 bits": (OF_32, ["0.1", "1.0", "0.3", "2.5"]),
    "decimals": (DECIMALS, ["0.0", "0.1", "0.2", "0.3"]),
    "integers": (pa.array([BIG + 1, BIG, BIG + 2, -7]), [str(BIG + 1), str(BIG), str(BIG + 2), "-7"]),
    "integers with a gap": (pa.array([7, None, 8, 9]), ["7", "", "8", "9"]),
    "bools": (pa.array([True, False, True, False]), ["True", "False", "True", "False"]),
    "words": (pa.array(["tcp", "UDP", "é", "a b"]), ["tcp", "UDP", "é", "a b"]),
    "words with blanks": (pa.array([" tcp", "udp ", "\tx", "a  b"]), ["tcp", "udp", "x", "a  b"]),
    "words with a gap": (pa.array(["tcp", None, "NA", "nan"]), ["tcp", "", "NA", "nan"]),
    "dictionary": (pa.array(["tcp", "udp", "x", "y"]).dictionary_encode(), ["tcp", "udp", "x", "y"]),
    "days": (pa.array([date(2024, 1, 1 + k) for k in FOUR]), [f"2024-01-0{1 + k}" for k in FOUR]),
    "midnights": (pa.array(times(0, days=1)), ["2024-01-31", "2024-02-01", "2024-02-02", "2024-02-03"]),
    "hours": (pa.array(times(12, hours=4)), [*BY_4_HOURS, "2024-02-01"]),
    "seconds": (pa.array(times(9, seconds=1), pa.timestamp("s")), [f"2024-01-31 09:00:0{k}" for k in FOUR]),
    "milliseconds": (pa.array(times(9, milliseconds=250)),
        [f"2024-01-31 09:00:00{k}" for k in ("", ".25", ".5", ".75")]),
    "hours of UTC": (pa.array([each.replace(tzinfo=UTC) for each in times(12, hours=4)], pa.timestamp("us", "UTC")),
        [f"{each}+00:00" for each in (*BY_4_HOURS, "2024-02-01 00:00:00")]),
    "hours of Berlin": (pa.array([each.replace(tzinfo=BERLIN) for each in times(12, hours=1)], IN_BERLIN),
        [f"2024-01-31 {11 + k}:00:00+00:00" for k in FOUR]),
    "times of day": (pa.array([time(12, 30, k, 500_000 * (k % 2)) for k in FOUR]),
        ["12:30:00", "12:30:01.5", "12:30:02", "12:30:03.5"]),
}  # fmt: skip


def written(write, *rows) -> bytes:
    file = io.BytesIO()
    write(*rows, file)
    return file.getvalue()


AS_TEXT = {"default": lambda value: str(value) if isinstance(value, date | time) else float(value)}
AS_LINES = {"orient": "records", "lines": True, "date_format": "iso"}
# A way in -> the bytes of a table, or the table as Python holds it.
FILES = {
    "csv of pandas": ("csv", lambda rows: rows.to_pandas().to_csv(index=False).encode()),
    "csv of polars": ("csv", lambda rows: pl.from_arrow(rows).write_csv().encode()),
    "csv of pyarrow": ("csv", lambda rows: written(csv.write_csv, rows)),
    "tsv": ("tsv", lambda rows: rows.to_pandas().to_csv(index=False, sep="\t").encode()),
    "jsonl of pandas": ("jsonl", lambda rows: rows.to_pandas().to_json(**AS_LINES).encode()),
    "jsonl of polars": ("jsonl", lambda rows: pl.from_arrow(rows).write_ndjson().encode()),
    "parquet": ("parquet", lambda rows: written(parquet.write_table, rows)),
    "parquet of pandas": ("parquet", lambda rows: rows.to_pandas().to_parquet(index=False)),
    "arrow file": ("arrow", lambda rows: written(feather.write_feather, rows)),
    "arrow stream": ("arrow", lambda rows: written(pl.from_arrow(rows).write_ipc_stream)),
    "orc": ("orc", lambda rows: written(orc.write_table, rows)),
}  # fmt: skip
FRAMES = {"pandas": lambda rows: rows.to_pandas(), "polars": pl.from_arrow, "pyarrow": lambda rows: rows}
ROWS = {
    "dictionaries": lambda rows: rows.to_pylist(),
    "dictionaries of pandas": lambda rows: rows.to_pandas().to_dict("records"),
    "JSON rows": lambda rows: json.loads(json.dumps(rows.to_pylist(), **AS_TEXT)),
}
NOT_WRITTEN = {("dictionary", "orc"), ("times of day", "orc"), ("numbers of 64 bits", "orc")}  # there is no writer
# Where a writer spells values otherwise, and text keeps that: other words of the same values.
OF_PANDAS = ("csv of pandas", "tsv", "jsonl of pandas", "parquet of pandas", "pandas")
SPELLED = {
    ("floats", "csv of pyarrow"): ["1.5", "-2", "0.1", "7"],
    ("floats of 32 bits", "csv of pyarrow"): ["0.1", "1", "0.3", "2.5"],
    ("floats of 32 bits", "jsonl of pandas"): ["0.1000000015", "1.0", "0.3000000119", "2.5"],
    **{("bools", f"csv of {writer}"): ["true", "false"] for writer in ("polars", "pyarrow")},
    **{("integers with a gap", way): ["7.0", "", "8.0", "9.0"] for way in OF_PANDAS},
}


def column(kind):
    return pa.table({"label": [1, -1] * 4, "c": pa.chunked_array([KINDS[kind][0]] * 2).combine_chunks()})


def read(kind, way, folder, **given):
    """Read a table to train on; returns its rows, and how they were made."""
    options = {"categorical": "c", "missing": "zero"} | given if KINDS[kind][1] else {}
    if way in FRAMES:
        source = table(FRAMES[way](column(kind)), "label", None, None, options)
        chunks, read_as = source.chunks, source.options
    else:
        format_, write = FILES[way]
        chunks, read_as = [write(column(kind))], InputOptions(format_, label_column="label", **options)
    reading = Reading(chunks, read_as, InputLimits(), 1, folder)
    (rows,) = reading.rows()
    return rows, reading.parser.input


def expected(kind):
    """(8,): the number in each row, or the first place of its word."""
    values, words = KINDS[kind]
    one = [words.index(word) for word in words] if words else np.float32(values.to_pylist()).tolist()
    return np.array(one * 2, float)


def model_of(kind, rows, input_) -> Model:
    """A model whose decision values are the expected ones."""
    w = np.ones(int(rows.indices.max(initial=1)))
    if KINDS[kind][1]:
        w[rows.indices - 1] = expected(kind)
    return Model(w, (1.0, -1.0), 1, about={"input": input_})


def predicted(model, kind, way):
    """The decision values for the rows, all of whose words are known, or it warns."""
    given = (FRAMES | ROWS | {way: FILES[way][1] for way in FILES})[way](column(kind))
    if way == "JSON rows":
        found = Predictor(model, strict=True).predict_table(json_tables({"rows": given}, model.about["input"], 1))
    elif way in ROWS:
        found = [Predictor(model).predict(raw_rows(given, model))]
    elif way in FRAMES:
        found = predictions(given, Predictor(model), "label")
    else:
        options = InputOptions(FILES[way][0], label_column="label")
        found = Predictor(model, strict=True).predict_text([given], options=options)
    return np.concatenate([each.decision_values for each in found]).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_is_the_same_by_every_way(kind, tmp_path):
    trained = {}  # a way for each list of words
    for way in (FILES | FRAMES).keys() - {way for of, way in NOT_WRITTEN if of == kind}:
        rows, input_ = read(kind, way, tmp_path)
        words = list(input_["dictionary"].get("c", ()))
        assert words == SPELLED.get((kind, way), list(dict.fromkeys(KINDS[kind][1] or ()))), way
        trained[tuple(words)] = model_of(kind, rows, input_)
    for words, model in trained.items():
        for way in (FILES | FRAMES | ROWS).keys() - {way for of, way in NOT_WRITTEN if of == kind}:
            assert predicted(model, kind, way) == expected(kind).tolist(), (words, way)


@pytest.mark.parametrize("kind", ["words with blanks", "milliseconds", "hours of Berlin", "times of day"])
def test_hashed_words_are_the_same_by_every_way(kind, tmp_path):
    for way in (FILES | FRAMES).keys() - {way for of, way in NOT_WRITTEN if of == kind}:
        rows, _ = read(kind, way, tmp_path, categories="hashed", n_features=64)
        words = FeatureHasher(64, input_type="string").transform([[f"c={word}"] for word in KINDS[kind][1] * 2])
        assert np.array_equal(rows.indices - 1, words.indices) and np.array_equal(rows.values, words.data), way


LABELS = {
    "numbers": ([0.0, 1.5, 2.0, 0.0], [0, 1.5, 2], None),
    "bools": ([True, False, True, False], ["False", "True"], None),
    "words with blanks": ([" b", "a ", "c", "a"], ["a", "b", "c"], None),
    "of 54 bits": ([BIG, BIG + 1, BIG + 2, BIG], "label_not_exact", None),
    "of 54 bits as words": ([BIG, BIG + 1, BIG], [str(BIG), str(BIG + 1)], "string"),
    "of 64 bits, held": ([2**62, -(2**62), 2**62], [-(2.0**62), 2.0**62], None),
    "gaps": (["a", None, "b"], "missing_value", None),
}


@pytest.mark.parametrize("case", LABELS)
@pytest.mark.parametrize("way", FILES)
def test_labels_are_the_same_in_all_files(case, way, tmp_path):
    labels, classes, type_ = LABELS[case]
    format_, write = FILES[way]
    text = write(pa.table({"label": labels, "a": [1.5] * len(labels)}))
    reading = Reading([text], InputOptions(format_, label_type=type_ or "auto"), InputLimits(), 1, tmp_path)
    try:
        found = np.concatenate([rows.label for rows in reading.rows()])
    except InputError as error:
        assert error.code == classes
    else:
        words = SPELLED.get((case, way), classes)
        assert sorted(words) == (sorted(reading.names.names) or sorted(set(found.tolist())))


PARTS = [
    ("label", [True, False], [1, 0], "labels_alike"),
    ("label", [1, 0], [True, False], {0, 1}),
    ("label", [1, 0], [1.0, 0.0], {0, 1}),
    ("label", ["1", "0"], [1.0, 0.0], "labels_alike"),
    ("label", [1, 0], ["1", "0"], "column_type"),
    ("c", [7, 8], [7.0, None], ["7", "8", ""]),
    ("c", [7.0, None], [7, 8], ["7.0", "", "8"]),
    ("c", [True, False], ["true", "x"], ["True", "False", "x"]),
    ("g", [7, 8], [7.0, 8.5], {7, 8, 8.5}),
    ("g", ["7", "8"], [7, 8], {7, 8}),
]


@pytest.mark.parametrize(("name", "first", "second", "expected"), PARTS)
def test_parts_may_have_other_types(name, first, second, expected, tmp_path):
    for number, values in enumerate((first, second)):
        columns = {"label": [1, -1], "c": ["u", "v"], "g": [1, 2], "a": [1.0, 2.0]} | {name: values}
        parquet.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
    options = InputOptions("parquet", categorical="c", missing="zero", group_column="g")
    files = SourceInput(list_files([str(tmp_path / "0.parquet"), str(tmp_path / "1.parquet")]), InputLimits())
    reading = Reading(files, options, InputLimits(), 1, tmp_path)
    try:
        batches = list(reading.rows())
    except InputError as error:
        assert error.code == expected
        return
    if name == "c":
        assert list(reading.parser.input["dictionary"]["c"]) == expected
    elif name == "label":
        assert {label for rows in batches for label in rows.label.tolist()} == expected
    else:
        assert {group for rows in batches for group in rows.group.tolist()} == {*groups_of(expected).tolist()}


def test_python_warns_of_words_that_the_model_does_not_know(tmp_path):
    rows, input_ = read("words", "csv of pandas", tmp_path)
    model = model_of("words", rows, input_)
    with pytest.warns(InputWarning, match="does not know, passed over: 3 in c"):
        (found,) = predictions(pd.DataFrame({"c": ["tcp", "new", "newer", "new"]}), Predictor(model), None)
    assert found.decision_values.tolist() == [0, 0, 0, 0]
    with pytest.warns(InputWarning, match="1 in c"):
        raw_rows([{"c": "tcp"}, {"c": "x"}], model)
