"""One table, in a file of any format or a frame of any library, makes one model, to the byte, and one prediction."""

import duckdb
import numpy as np
import pandas
import polars
import pyarrow
import pytest
from pyarrow import dataset

from streamsvm import StreamSVC, load
from tests.reader.test_values import FILES, FRAMES, KINDS, NOT_WRITTEN, SPELLED

NAMES = ["a b", "Größe", "7", "price, €", 'a "b"']
# Columns of the same words by every way, and one of numbers with gaps; pandas writes decimals as words into JSON.
_OTHERS = {"decimals", "decimals as numbers", *(kind for kind, _ in {*SPELLED, *NOT_WRITTEN})}
COLUMNS = {kind: values for kind, (values, _) in KINDS.items() if kind not in _OTHERS}
COLUMNS["gaps"] = pyarrow.array([0.5, None, -3.0, 1e-3])
MORE = {
    "pandas nullable": lambda rows: rows.to_pandas().convert_dtypes(),
    "polars lazy": lambda rows: polars.from_arrow(rows).lazy(),
    "polars Categorical": lambda rows: polars.from_arrow(rows).cast({"words": polars.Categorical}),
    "arrow dataset": dataset.dataset,
    "arrow reader": lambda rows: rows.to_reader(max_chunksize=rows.num_rows),
    "arrow dictionaries": lambda rows: rows.set_column(
        rows.schema.get_field_index("words"), "words", rows["words"].dictionary_encode()
    ),
    "duckdb": duckdb.from_arrow,
}


def table(labels):
    """Some rows, each column in a random order, under a name of its own."""
    rng, n = np.random.default_rng(0), 6 * len(labels)
    columns = {
        kind if kind == "words" else f"{NAMES[k % len(NAMES)]}{k}": values.take(rng.integers(0, 4, n))
        for k, (kind, values) in enumerate(COLUMNS.items())
    }
    return pyarrow.table({**columns, "target": labels * 6})


def ways(rows, folder) -> dict:
    """Functions that make the table in every form."""
    forms = dict(FRAMES | MORE)
    for way, (format_, write) in FILES.items():
        path = folder / f"{way}.{format_}"
        path.write_bytes(write(rows))
        forms[way] = lambda _, path=path: str(path)
    return {way: lambda make=make: make(rows) for way, make in forms.items()}


def fitted(form, missing):
    options = {"categorical": "all", "missing": missing}
    return StreamSVC(pace="fixed", max_passes=3, input_options=options).fit(form, "target")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("labels", "missing"), [(["no", "yes"] * 2, "zero"), ([-1, 3, 3, -1], "indicator"), (["a", "b", "c", "a"], "zero")]
)
def test_one_table_makes_one_model(tmp_path, labels, missing):
    rows = table(labels)
    forms = ways(rows, tmp_path)
    first = fitted(forms["csv of pandas"](), missing)
    expected = first.decision_function(rows)
    for way, form in forms.items():
        model = fitted(form(), missing)
        for each, name in ((first, "first.npz"), (model, "model.npz")):
            each.save(tmp_path / name)
        assert (tmp_path / "first.npz").read_bytes() == (tmp_path / "model.npz").read_bytes(), way
        assert np.array_equal(first.decision_function(form()), expected), way
    if labels == ["a", "b", "c", "a"]:  # columns in another order, once
        check_permuted(tmp_path, rows, first, expected, missing)


def check_permuted(tmp_path, rows, first, expected, missing):
    names = np.random.default_rng(1).permutation(rows.schema.names).tolist()
    for way, form in ways(rows.select(names), tmp_path).items():
        assert np.array_equal(first.decision_function(form()), expected), way
        other = fitted(form(), missing)
        assert weights_of(other) == weights_of(first), way
        assert np.array_equal(other.decision_function(rows), expected), way


def weights_of(model) -> tuple:
    """The weight of each feature by its name, for each class, the intercepts, and what the certificate says."""
    weights = np.atleast_2d(model.coef_).T.tolist()
    by_name = dict(zip(model.get_feature_names_out(), weights, strict=True))
    certificate = model.certificate_
    return by_name, model.intercept_.tolist(), certificate.primal_objective, certificate.gap


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
