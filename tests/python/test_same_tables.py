"""One table, as a file of any format or as a frame of any library, makes one model, and is predicted alike.

TABLES=500 python -m pytest tests/python/test_same_tables.py   tries 500 tables, each in every form, and not 25 in some
"""

import datetime
import json
import os
import warnings

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from streamsvm import StreamSVC, load

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
feather, ipc, orc = (pytest.importorskip(f"pyarrow.{name}") for name in ("feather", "ipc", "orc"))
dataset = pytest.importorskip("pyarrow.dataset")

NUMBERS = st.floats(-1e3, 1e3, width=32).map(lambda value: round(value, 3))
DAYS = st.dates(datetime.date(1990, 1, 1), datetime.date(2030, 1, 1))
WORDS = ["red", "blue", "ünd", 'a "b"', "x, y", "high-end", "l'eau", "two words"]
KINDS = {
    "number": NUMBERS,
    "count": st.integers(-5, 10**6),
    "word": st.sampled_from(WORDS),
    "truth": st.booleans(),
    "day": DAYS.map(lambda day: datetime.date(day.year, day.month, 1)),
}
NAMES = ["age", "a b", "Größe", "id2", "7", "price, €", "w"]


class RandomTable:
    """A table: columns of several kinds by name, some with gaps, and labels in `target`."""

    def __init__(self, columns: dict[str, tuple[str, list]], options: dict) -> None:
        self.columns = columns
        self.options = options

    @property
    def values(self) -> dict[str, list]:
        return {name: values for name, (_, values) in self.columns.items()}

    def __repr__(self) -> str:
        return f"RandomTable({self.columns!r}, {self.options!r})"

    def selected(self, names: list[str]) -> "RandomTable":
        return RandomTable({name: self.columns[name] for name in names}, self.options)

    def text(self, path, delimiter: str) -> str:
        self.pandas().to_csv(path, index=False, sep=delimiter)
        return str(path)

    def arrow(self, encoded: bool = False):
        columns = {name: pyarrow.array(values, _ARROW[kind]) for name, (kind, values) in self.columns.items()}
        words = [name for name, (kind, _) in self.columns.items() if kind == "word" and encoded]
        return pyarrow.table(columns | {name: columns[name].dictionary_encode() for name in words})

    def pandas(self, types: dict | None = None):
        frame = pandas.DataFrame({name: pandas.Series(values, dtype=object) for name, values in self.values.items()})
        for name, (kind, values) in self.columns.items():
            if kind == "count" and None not in values:
                frame[name] = frame[name].astype("int64")
            if kind == "number":
                frame[name] = frame[name].astype(float)
            if types and kind in types:
                frame[name] = frame[name].astype(types[kind])
        return frame

    def polars(self, type_of_words):
        types = {**_POLARS, "word": type_of_words}
        return polars.DataFrame({n: polars.Series(v, dtype=types[kind]) for n, (kind, v) in self.columns.items()})


_ARROW = {
    "number": pyarrow.float64(), "count": pyarrow.int64(), "word": pyarrow.string(), "truth": pyarrow.bool_(),
    "day": pyarrow.date32(),
}  # fmt: skip
_POLARS = {"number": polars.Float64, "count": polars.Int64, "truth": polars.Boolean, "day": polars.Date}
_NULLABLE = {"count": "Int64", "word": "string", "truth": "boolean", "day": "datetime64[ns]"}


@st.composite
def tables(draw):
    n_rows = draw(st.integers(12, 30))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True))
    columns = {}
    for name in names:
        kind = draw(st.sampled_from(sorted(KINDS)))
        gaps = st.none() if draw(st.booleans()) else st.nothing()
        values = draw(st.lists(KINDS[kind] | gaps, min_size=n_rows, max_size=n_rows))
        values[draw(st.integers(0, n_rows - 1))] = draw(KINDS[kind])  # a column of gaps alone has no kind
        columns[name] = kind, values
    kind, classes = draw(st.sampled_from([("word", ["no", "yes"]), ("count", [-1, 3]), ("word", ["a", "b", "c"])]))
    labels = draw(st.lists(st.sampled_from(classes), min_size=n_rows, max_size=n_rows))
    labels[:2] = classes[:2]
    order = draw(st.permutations([*names, "target"]))
    columns = {**columns, "target": (kind, labels)}
    missing = draw(st.sampled_from(["zero", "indicator"]))
    options = {"categorical": "all", "missing": missing, "header": "yes"}
    return RandomTable({name: columns[name] for name in order}, options)


def ways(table: RandomTable, folder) -> dict:
    """The table in every form. Those that can be read once are functions."""
    arrow = table.arrow()
    parquet.write_table(arrow, folder / "t.parquet")
    feather.write_feather(table.arrow(encoded=True), folder / "t.feather")
    orc.write_table(arrow, folder / "t.orc")
    rows = [dict(zip(table.values, row, strict=True)) for row in zip(*table.values.values(), strict=True)]
    (folder / "t.jsonl").write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))
    with ipc.new_stream(folder / "t.arrows", arrow.schema) as stream:
        stream.write_table(arrow, max_chunksize=5)
    words = sorted({word for kind, values in table.columns.values() if kind == "word" for word in values if word})
    return {
        "csv": table.text(folder / "t.csv", ","),
        "tsv": table.text(folder / "t.tsv", "\t"),
        **{name: str(folder / f"t.{name}") for name in ("jsonl", "parquet", "feather", "arrows", "orc")},
        "pandas objects": table.pandas(),
        "pandas nullable": table.pandas(_NULLABLE),
        "pandas categories": table.pandas({"word": "category"}),
        "polars": table.polars(polars.String),
        "polars Categorical": table.polars(polars.Categorical),
        "polars Enum": table.polars(polars.Enum(words)),
        "polars lazy": table.polars(polars.String).lazy(),
        "arrow": arrow,
        "arrow dictionaries": table.arrow(encoded=True),
        "arrow dataset": dataset.dataset(arrow),
        "duckdb": duckdb.from_arrow(arrow),
        "arrow reader": lambda: arrow.to_reader(max_chunksize=max(2, arrow.num_rows)),
    }


def given_as(way):
    return way() if callable(way) else way


def fitted(way, options):
    if not str(way).endswith(("csv", "tsv")):
        options = {name: value for name, value in options.items() if name != "header"}
    model = StreamSVC(pace="fixed", max_passes=3, input_options=options)
    return model.fit(given_as(way), "target")


TABLES = os.environ.get("TABLES")


def some(forms: dict, data) -> dict:
    """The table as CSV, and in some other forms."""
    others = sorted(forms.keys() - {"csv"})
    chosen = others if TABLES else data.draw(st.lists(st.sampled_from(others), min_size=3, max_size=3, unique=True))
    return {name: forms[name] for name in ("csv", *chosen)}


@pytest.mark.filterwarnings("ignore")
@settings(
    max_examples=int(TABLES or "25"),
    phases=[
        phase for phase in Phase if phase is not Phase.shrink
    ],  # a table trains ten models: to shrink it takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(table=tables(), data=st.data())
def test_one_table_makes_one_model(tmp_path, table, data):
    note(str(table))
    forms = some(ways(table, tmp_path), data)
    saved, values = {}, {}
    first = fitted(forms["csv"], table.options)
    for name, form in forms.items():
        model = fitted(form, table.options)
        model.save(tmp_path / "m.npz")
        saved[name] = (tmp_path / "m.npz").read_bytes()
        values[name] = first.decision_function(given_as(form)).tobytes()
    assert {name for name in forms if saved[name] != saved["csv"]} == set()
    assert {name for name in forms if values[name] != values["csv"]} == set()
    check_order(table, first, data.draw(st.permutations(list(table.columns))), forms.keys(), tmp_path)


def check_order(table: RandomTable, model, names: list[str], chosen, folder) -> None:
    """A table with its columns in another order is predicted to the byte, and each column gets the same weight."""
    folder = folder / "other"
    folder.mkdir(exist_ok=True)
    forms = {name: form for name, form in ways(table.selected(names), folder).items() if name in chosen}
    expected = model.decision_function(table.arrow())
    for name, form in forms.items():
        np.testing.assert_array_equal(model.decision_function(given_as(form)), expected, err_msg=name)
    for name, form in forms.items():
        other = fitted(form, table.options)
        assert weights_of(other) == weights_of(model), name
        assert other.decision_function(table.arrow()).tobytes() == expected.tobytes(), name


def weights_of(model) -> tuple:
    """The weight of each feature by its name, for each class, the intercepts, and what the certificate says."""
    weights = np.atleast_2d(model.coef_).T.tolist()
    by_name = dict(zip(model.get_feature_names_out(), weights, strict=True))
    certificate = model.certificate_
    return by_name, model.intercept_.tolist(), certificate.primal_objective, certificate.gap


def test_warnings_are_none_for_frames_with_the_columns_of_training():
    frame = pandas.DataFrame({"w": ["a", "b"] * 4, "n": [1.0, None] * 4, "target": ["x", "y"] * 4})
    model = StreamSVC(input_options={"categorical": "all", "missing": "zero"}).fit(frame, "target")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.predict(frame[["n", "w"]]).tolist() == ["x", "y"] * 4
        assert model.predict(polars.from_pandas(frame)).tolist() == ["x", "y"] * 4


@pytest.mark.parametrize("trained", ["csv", "parquet", "frame"])
def test_labels_that_are_booleans_are_those_of_every_form(tmp_path, trained):
    numbers = [k - 19.5 for k in range(40)]
    frame = pandas.DataFrame({"a": numbers, "b": numbers[::-1], "target": [number > 0 for number in numbers]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    forms = {"csv": tmp_path / "t.csv", "parquet": tmp_path / "t.parquet", "frame": frame}
    model = StreamSVC(pace="fixed").fit(forms[trained], "target")
    assert model.classes_.tolist() == ([False, True] if trained == "frame" else ["False", "True"])
    assert [model.score(form, "target") for form in forms.values()] == [1.0] * 3
    assert [model.evaluate(form, "target")["accuracy"] for form in forms.values()] == [1.0] * 3
    if trained == "frame":  # a file has numbers for them
        model.save(tmp_path / "m.npz")
        assert load(tmp_path / "m.npz").evaluate(frame, "target")["accuracy"] == 1.0
