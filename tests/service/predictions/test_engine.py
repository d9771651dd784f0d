"""Predictions of files against numpy: formats, ranges of files, columns that are kept, faults, and kills."""

import csv
import errno
import gzip
import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.csv
import pytest
from pyarrow import feather, ipc, orc, parquet

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.matching import named_numbers
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.predictions.engine import Engine, PredictionProgress, Stopped
from streamsvm.service.predictions.request import PredictionRequest, format_of_destination, outputs_of
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.models.support_vectors import SupportVectors
from tests.refusals import refused

NAMES = ["a", "b", "c"]
W = np.array([1.5, -0.25, 2.0])
N_ROWS = 1000
FORMATS = ("csv", "tsv", "jsonl", "parquet", "csv.gz", "arrow", "arrows.zst", "orc")
SMALL = 1 << 12  # bytes of a unit: dozens of them
LINEAR = Model(W, (1.0, -1.0), 1, about={"input": {**named_numbers(NAMES), "has_names": True, "format": "csv"}})


def table(n_rows: int = N_ROWS, seed: int = 0) -> pyarrow.Table:
    """Rows whose values fit float32, so that decision values are exact."""
    rng = np.random.default_rng(seed)
    columns = {name: rng.integers(-1000, 1000, n_rows) / 8 for name in NAMES}
    ids = pyarrow.array([f"row {seed} é, {k}" for k in range(n_rows)])
    return pyarrow.table({"id": ids, **columns, "day": pyarrow.array(range(n_rows), pyarrow.date32())})


def decisions(rows: pyarrow.Table) -> np.ndarray:
    return np.column_stack([rows[name].to_numpy() for name in NAMES]) @ W


def run(tmp_path: Path, name: str, *sources: Path | str, model: Model = LINEAR, **more) -> Path:
    """Predict sources into a file of this name; returns its path."""
    options = {key: more.pop(key) for key in ("unit_bytes", "threads", "progress") if key in more}
    predictor = Predictor(model)
    more.setdefault("outputs", outputs_of(predictor, None))
    request = PredictionRequest(list(map(str, sources)), format_of_destination(name), **more)
    Engine(predictor, request, tmp_path / "pieces", **{"unit_bytes": SMALL, **options}).run(str(tmp_path / name))
    assert not (tmp_path / "pieces").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    return tmp_path / name


@pytest.fixture
def written(tmp_path) -> dict[str, Path]:
    """The rows of `table()` as files of each format with columns."""
    rows, files = table(), {name: tmp_path / f"rows.{name}" for name in FORMATS}
    pyarrow.csv.write_csv(rows, files["csv"])
    pyarrow.csv.write_csv(rows, files["tsv"], pyarrow.csv.WriteOptions(delimiter="\t"))
    parquet.write_table(rows, files["parquet"], row_group_size=90)
    files["csv.gz"].write_bytes(gzip.compress(files["csv"].read_bytes()))
    orc.write_table(rows, files["orc"])
    files["jsonl"].write_text("".join(json.dumps(row, default=str) + "\n" for row in rows.to_pylist()))
    with ipc.new_file(files["arrow"], rows.schema) as writer:
        writer.write_table(rows, max_chunksize=90)
    with (
        pyarrow.CompressedOutputStream(str(files["arrows.zst"]), "zstd") as file,
        ipc.new_stream(file, rows.schema) as w,
    ):
        w.write_table(rows)
    return files


@pytest.mark.parametrize("kind", FORMATS)
def test_tables_become_parquet(tmp_path, written, kind, monkeypatch):
    monkeypatch.setattr("streamsvm.service.predictions.file_rows.UNIT_ROWS", 100)
    found = parquet.read_table(run(tmp_path, "out.parquet", written[kind], keep=("id", "day")))
    assert found.column_names == ["id", "day", "label", "decision_value"]
    rows = table()
    assert found["id"].to_pylist() == rows["id"].to_pylist()
    assert list(map(str, found["day"].to_pylist())) == list(map(str, rows["day"].to_pylist()))
    assert found["decision_value"].to_numpy().tolist() == decisions(rows).tolist()
    assert found["label"].to_numpy().tolist() == np.where(decisions(rows) > 0, 1.0, -1.0).tolist()
    if kind in ("parquet", "arrow", "arrows.zst", "orc"):
        assert found.schema.field("day").type == pyarrow.date32()


def test_predictions_become_csv_and_ndjson(tmp_path, written):
    with run(tmp_path, "out.csv", written["parquet"], keep=("id",)).open(newline="") as file:
        lines = list(csv.DictReader(file))
    objects = list(map(json.loads, run(tmp_path, "out.ndjson", written["csv"], keep=("id",)).read_text().splitlines()))
    assert [line["id"] for line in lines] == [each["id"] for each in objects] == table()["id"].to_pylist()
    expected = decisions(table()).tolist()
    assert [float(line["decision_value"]) for line in lines] == [each["decision_value"] for each in objects] == expected
    assert {line["label"] for line in lines} == {"1", "-1"} and {each["label"] for each in objects} == {1.0, -1.0}


def test_files_of_a_pattern_follow_each_other_by_name(tmp_path):
    parts = [table(300, seed) for seed in range(3)]
    for number, part in enumerate(parts):
        parquet.write_table(
            part if number != 1 else part.select(["c", "a", "id", "b"]), tmp_path / f"part-{number}.parquet"
        )
    parquet.write_table(table(0), tmp_path / "part-9.parquet")
    found = parquet.read_table(run(tmp_path, "out.parquet", tmp_path / "part-*.parquet", keep=("id",)))
    assert found["id"].to_pylist() == [each for part in parts for each in part["id"].to_pylist()]
    assert found["decision_value"].to_numpy().tolist() == np.concatenate([*map(decisions, parts)]).tolist()


@pytest.mark.parametrize("base", [0, 1])
def test_ranges_of_libsvm_text_are_numbered_alike(tmp_path, base):
    """A range whose rows do not show the first number takes it from the beginning of the file."""
    model = Model(W, (1.0, -1.0), 0)
    lines = [f"1 {base}:1 {base + 1}:2\n"] + [f"-1 1:{k} 2:0.5\n" for k in range(2000)]
    (tmp_path / "rows.svm").write_text("".join(lines))
    small, large = (
        run(tmp_path, "out.csv", tmp_path / "rows.svm", model=model, unit_bytes=size,
            options=InputOptions(index_base=1 if base else "auto")).read_bytes()
        for size in (SMALL, 1 << 30)
    )  # fmt: skip
    assert small == large and small.count(b"\n") == len(lines) + 1
    assert float(small.splitlines()[1].split(b",")[1]) == W[0] + 2 * W[1]


def test_a_table_without_names_is_cut_too(tmp_path):
    rows = table()
    with (tmp_path / "rows.csv").open("wb") as file:
        pyarrow.csv.write_csv(rows, file, pyarrow.csv.WriteOptions(include_header=False, delimiter=";"))
    model = Model(W, (1.0, -1.0), 1)
    out = run(
        tmp_path, "out.csv", tmp_path / "rows.csv", model=model, keep=("1", "-1"), options=InputOptions(header="no")
    )
    found = pyarrow.csv.read_csv(out)
    assert found.column_names == ["1", "-1", "label", "decision_value"]
    assert found["1"].to_pylist() == rows["id"].to_pylist()
    assert found["decision_value"].to_numpy().tolist() == decisions(rows).tolist()


def test_classes_and_probabilities_have_columns(tmp_path, written):
    w = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    model = Model(w, ("x", "y", "50%"), 1, about=LINEAR.about, sigmoid=((-1.0, 0.0),) * 3)
    found = parquet.read_table(run(tmp_path, "out.parquet", written["csv"], model=model))
    assert found.column_names[:2] == ["label", "decision_value_x"] and found.column_names[-1] == "probability_50%"
    objects = list(map(json.loads, run(tmp_path, "out.ndjson", written["csv"], model=model).read_text().splitlines()))
    assert objects[0]["decision_value"] == [found[f"decision_value_{label}"][0].as_py() for label in ("x", "y", "50%")]
    assert [each["label"] for each in objects] == found["label"].to_pylist()
    only = run(tmp_path, "out.csv", written["csv"], model=model, outputs=outputs_of(Predictor(model), ["label"]))
    assert only.read_text().splitlines()[0] == "label"


def test_a_column_with_the_name_of_an_output_is_told_apart(tmp_path):
    rows = table().append_column("label", pyarrow.array(np.ones(N_ROWS)))
    parquet.write_table(rows, tmp_path / "rows.parquet")
    assert (
        run(tmp_path, "o.csv", tmp_path / "rows.parquet", keep=("label",)).read_text().startswith("input_label,label,")
    )


def test_documents_in_parquet(tmp_path):
    rng = np.random.default_rng(3)
    input_ = {"format": "text", "n_features": 64, "analyzer": "word", "ngram_range": [1, 1], "alternate_sign": True,
              "lowercase": True, "text_column": "words"}  # fmt: skip
    model = Model(rng.standard_normal(64), (1.0, -1.0), 0, about={"input": input_})
    words = [" ".join(rng.choice(["one", "two", "three", 'Four, "five"'], 5)) for _ in range(500)]
    rows = pyarrow.table({"n": list(range(500)), "words": words})
    parquet.write_table(rows, tmp_path / "rows.parquet")
    pyarrow.csv.write_csv(rows, tmp_path / "rows.csv")
    here, there = (
        parquet.read_table(run(tmp_path, "out.parquet", tmp_path / f"rows.{kind}", model=model, keep=("n",)))
        for kind in ("parquet", "csv")
    )
    assert here["n"].to_pylist() == list(map(int, there["n"].to_pylist())) == list(range(500))
    expected = [value for each in Predictor(model).predict_documents(words) for value in each.decision_values.tolist()]
    assert here["decision_value"].to_pylist() == there["decision_value"].to_pylist() == expected


FAULTS = {
    "no such column": ("rows.csv", {"keep": ("nothing",)}, InputError, "keep_missing"),
    "no such column in Parquet": ("rows.parquet", {"keep": ("nothing",)}, InputError, "keep_missing"),
    "a column the model needs": ("short.csv", {}, InputError, "column_missing"),
    "no number": ("bad.csv", {}, InputError, "not_numeric"),
    "no columns": ("rows.svm", {"keep": ("id",)}, InputError, "keep_no_columns"),
    "no rows": ("empty.csv", {}, InputError, "no_rows"),
    "no file": ("none.csv", {}, InputError, "source_not_found"),
    "no folder": ("rows.csv", {"to": "none/out.csv"}, ServiceError, "destination_unwritable"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_stays_of_what_fails(tmp_path, written, fault):
    name, more, error, code = FAULTS[fault]
    lines = written["csv"].read_text().splitlines(keepends=True)
    (tmp_path / "short.csv").write_text("a,b\n" + "1,2\n" * 3000)
    (tmp_path / "bad.csv").write_text("".join([*lines, '"r",1,x,3,2020-01-01\n']))
    (tmp_path / "empty.csv").write_text(lines[0])
    (tmp_path / "rows.svm").write_text("1 1:1\n")
    before = set(tmp_path.iterdir())
    with pytest.raises(error) as raised:
        run(tmp_path, more.pop("to", "out.csv") if "to" in more else "out.csv", tmp_path / name, **more)
    assert raised.value.code == code
    assert set(tmp_path.iterdir()) == before
    if fault == "no number":
        assert raised.value.file == str(tmp_path / name)
        assert raised.value.byte == len("".join(lines).encode()) + len('"r",1,')


@pytest.mark.parametrize("where", ["engine", "request"])
def test_nothing_stays_on_a_full_disk(tmp_path, written, where, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = set(tmp_path.iterdir())
    monkeypatch.setattr(f"streamsvm.service.predictions.{where}.publish", full)
    with refused(ServiceError, "out_of_space"):
        run(tmp_path, "out.parquet", written["csv"], keep=("id",))
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_fault_in_a_later_group_names_its_row(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("streamsvm.service.predictions.file_rows.UNIT_ROWS", 100)
    rows, path = table(), tmp_path / f"rows.{kind}"
    values = rows["b"].to_pylist()
    values[777] = None
    rows = rows.set_column(2, "b", pyarrow.array(values))
    if kind == "parquet":
        parquet.write_table(rows, path, row_group_size=100)
    else:
        feather.write_feather(rows, path, chunksize=100)
    with pytest.raises(InputError, match="row 778, column 3"):
        run(tmp_path, "out.csv", path)


def test_what_is_stopped_goes_on_with_the_same_bytes(tmp_path, written):
    expected = run(tmp_path, "whole.parquet", written["csv"], keep=("id",)).read_bytes()
    request, made, engines = PredictionRequest([str(written["csv"])], "parquet", keep=("id",)), [], []

    def told(seen: PredictionProgress) -> None:
        made.append(seen.rows)
        if 100 * len(engines) ** 2 <= seen.rows < N_ROWS and len(engines) < 3:
            engines[-1].stop()

    for number in range(3):
        engines.append(Engine(Predictor(LINEAR), request, tmp_path / "pieces", 1, told, SMALL))
        with nullcontext() if number == 2 else pytest.raises(Stopped):
            engines[-1].run(str(tmp_path / "out.parquet"))
        assert (tmp_path / "out.parquet").exists() == (number == 2)
    assert (tmp_path / "out.parquet").read_bytes() == expected and made[-1] == N_ROWS


def test_pieces_of_another_model_are_not_used(tmp_path, written):
    request = PredictionRequest([str(written["csv"])], "csv")
    engine = Engine(Predictor(LINEAR), request, tmp_path / "pieces", unit_bytes=SMALL, progress=lambda _: engine.stop())
    with pytest.raises(Stopped):
        engine.run(str(tmp_path / "out.csv"))
    other = Model(-W, (1.0, -1.0), 1, about=LINEAR.about)
    Engine(Predictor(other), request, tmp_path / "pieces", unit_bytes=SMALL).run(str(tmp_path / "out.csv"))
    found = pyarrow.csv.read_csv(tmp_path / "out.csv")["decision_value"].to_numpy()
    assert found.tolist() == (-decisions(table())).tolist()


def test_two_processes_do_not_share_pieces(tmp_path, written):
    request, codes = PredictionRequest([str(written["csv"])], "csv"), []

    def meanwhile(_: object) -> None:
        with pytest.raises(ServiceError) as raised:
            Engine(Predictor(LINEAR), request, tmp_path / "pieces").run(str(tmp_path / "out.csv"))
        codes.append(raised.value.code)

    Engine(Predictor(LINEAR), request, tmp_path / "pieces", progress=meanwhile).run(str(tmp_path / "out.csv"))
    assert codes == ["already_running"]


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.ndjson"])
def test_contributions_add_up_to_the_decision_value(tmp_path, written, name):
    path = run(tmp_path, name, written["parquet"], outputs=("decision_value", "base_value", "contributions"))
    if name.endswith("parquet"):
        found = parquet.read_table(path).to_pylist()
        assert parquet.read_table(path).schema.field("contributions").type == pyarrow.map_(
            pyarrow.string(), pyarrow.float64()
        )
    elif name.endswith("csv"):
        with path.open(newline="") as file:
            found = [{**row, "contributions": json.loads(row["contributions"])} for row in csv.DictReader(file)]
    else:
        found = list(map(json.loads, path.read_text().splitlines()))
    for row, expected in zip(found, decisions(table()).tolist(), strict=True):
        terms = dict(row["contributions"])
        assert float(row["base_value"]) == 0.0  # the mean of training is not known
        assert sum(terms.values()) == float(row["decision_value"]) == expected and set(terms) <= set(NAMES)
        assert list(map(abs, terms.values())) == sorted(map(abs, terms.values()), reverse=True)


def test_contributions_of_a_class_a_number_and_many_features(tmp_path):
    w = np.random.default_rng(0).standard_normal((3, 30))
    several = Model(w, ("a", "b", "c"), 1, 1.0, (0.5, 0.25, -1.0))
    lines = [" ".join(["1", *(f"{j}:{(j * k) % 7 + 1}" for j in range(1, 31)), "99:5"]) for k in range(20)]
    (tmp_path / "rows.svm").write_text("\n".join(lines) + "\n")
    X = np.array([[(j * k) % 7 + 1 for j in range(1, 31)] for k in range(20)], float)
    outputs = ("label", "decision_value", "contributions")
    path = run(tmp_path, "out.ndjson", tmp_path / "rows.svm", model=several, outputs=outputs)
    for x, row in zip(X, map(json.loads, path.read_text().splitlines()), strict=True):
        terms = w["abc".index(row["label"])] * x
        largest = np.argsort(-np.abs(terms))[:10]
        assert row["contributions"] == {str(j + 1): terms[j] for j in largest.tolist()}
    regression = Model(w[0], (), 1)
    path = run(tmp_path, "out.ndjson", tmp_path / "rows.svm", model=regression, outputs=("value", "contributions"))
    assert len(json.loads(path.read_text().splitlines()[0])["contributions"]) == 10
    asked = {"outputs": outputs_of(Predictor(regression), ["contributions"]), "explain": 3}
    path = run(tmp_path, "out.ndjson", tmp_path / "rows.svm", model=regression, **asked)
    assert all(len(json.loads(line)["contributions"]) == 3 for line in path.read_text().splitlines()[1:])


def test_a_model_that_is_not_linear_has_no_contributions():
    vectors = SupportVectors(0.5, 4, np.array([0, 1]), np.array([1], np.int32), np.ones(1, np.float32))
    predictor = Predictor(Model(np.ones(1), (1.0, -1.0), 1, vectors=vectors))
    with refused(ServiceError, "no_contributions"):
        outputs_of(predictor, ["label", "contributions"])
    linear = Predictor(LINEAR)
    assert outputs_of(linear, ["contributions", "label"]) == ("label", "base_value", "contributions")
    assert "contributions" not in outputs_of(linear, None)
    assert outputs_of(Predictor(Model(W, (), 1)), ["contributions"]) == ("value", "base_value", "contributions")
