"""Predictions of rows as they were uploaded: tables with categories, strings of bases."""

import io
import json

import pyarrow
import pytest
from pyarrow import ipc, parquet
from scipy import sparse

from streamsvm.service.models.predicting.predictor import Predictor
from tests.api.app import Service, check_problem, some_model
from tests.raw_models import STRINGS, by_letters, string_model, table_model

TEXT = "size,proto,flag\n2,udp,S0\n,tcp,never\n4,,S0\n"
VALUES = [111.0, 1.0, 12.0]
ROWS = [{"size": 2, "proto": "udp", "flag": "S0"}, {"proto": "tcp", "flag": "never"}, {"size": 4.0, "flag": "S0"}]
FASTA = ">x\nACAT\n> y\nGGGG\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("service"))
    dataset_id = service.add_dataset("data")
    models = {"table": table_model(), "strict_table": table_model(missing="error"), "strings": string_model()}
    models["numbers"] = some_model()
    service.models = {name: service.add_model(dataset_id, model) for name, model in models.items()}
    return service


def ask(service, name: str, kind: str | None = None, query: str = "", **body):
    headers = {"Content-Type": kind} if kind else {}
    url = f"/v1/models/{service.models[name]}/predict{query}"
    return service.request("POST", url, headers=headers, **body)


def values_of(response) -> list[float]:
    assert response.status_code == 200, response.text
    return [each["decision_value"] for each in response.json()["predictions"]]


@pytest.mark.parametrize("kind", ["text/csv", "text/plain", None])
def test_tables(service, kind):
    response = ask(service, "table", kind, content=TEXT)
    assert values_of(response) == VALUES
    # The word "never"; a gap in place of a protocol is no word.
    assert response.json()["unknown_features"] == 1


@pytest.mark.parametrize("kind", ["application/jsonl", "application/x-ndjson"])
def test_tables_of_json_lines(service, kind):
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    assert values_of(ask(service, "table", kind, content=lines)) == VALUES
    answer = check_problem(ask(service, "table", kind, content=lines + "{"), "not_json", 422)
    assert answer["at"]["line"] == 4


def test_tables_with_tabs_and_labels(service):
    text = "\n".join(f"a\t{line.replace(',', chr(9))}" for line in TEXT.splitlines())
    assert values_of(ask(service, "table", "text/tab-separated-values", content=text)) == VALUES
    assert values_of(ask(service, "table", "text/csv", "?label_column=1", content=text.replace("\t", ","))) == VALUES


def test_parquet_and_npz_are_stored_in_the_room_of_answers(service):
    columns = {"size": [2.0, None, 4.0], "proto": ["udp", "tcp", None], "flag": ["S0", "never", "S0"]}
    file, arrow = io.BytesIO(), io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file)
    with ipc.new_stream(arrow, pyarrow.table(columns).schema) as writer:
        writer.write_table(pyarrow.table(columns))
    for kind in ("application/vnd.apache.arrow.stream", "application/octet-stream"):
        assert values_of(ask(service, "table", kind, content=arrow.getvalue())) == VALUES
    check_problem(ask(service, "table", content=arrow.getvalue()[:-1]), "bad_arrow", 422)
    kind = "application/vnd.apache.parquet"
    assert values_of(ask(service, "table", kind, content=file.getvalue())) == VALUES
    check_problem(ask(service, "table", kind, content=file.getvalue()[:-1]), "bad_parquet", 422)
    X, numbers = sparse.csr_matrix([[0, 2.0, 0], [1, 0, 0.5]]), io.BytesIO()
    sparse.save_npz(numbers, X)
    expected = Predictor(some_model()).decision_values(sparse.hstack([X, sparse.csr_matrix((2, 1))]).tocsr())
    assert values_of(ask(service, "numbers", "application/x-npz", content=numbers.getvalue())) == expected.tolist()
    room = service.app.state.context.room
    assert room.in_use == 0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(room, "_most", 100)
        check_problem(ask(service, "table", kind, content=file.getvalue()), "answer_too_large", 413)
    assert room.in_use == 0


def test_tables_without_names(service):
    check_problem(ask(service, "table", "text/csv", content="udp,2,S0\n"), "header_differs", 422)


def test_columns_that_the_model_does_not_have(service):
    text = "size,id,flag,é,proto,label\n2,1,S0,,udp,x\n"
    response = ask(service, "table", "text/csv", content=text.encode())
    assert values_of(response) == [111.0]
    assert response.json()["unknown_columns"] == {"count": 2, "names": ["id", "é"]}
    assert (response.headers["unknown-columns"], response.headers["unknown-column-names"]) == ("2", "id, %C3%A9")
    rows = [{**ROWS[0], "id": 7, "label": "x"}, {**ROWS[0], "é": None}]
    response = ask(service, "table", json={"rows": rows})
    assert values_of(response) == [111.0, 111.0]
    assert response.json()["unknown_columns"] == {"count": 2, "names": ["id", "é"]}
    problem = check_problem(ask(service, "table", "text/csv", "?strict=true", content=text.encode()), "unknown_feature")
    assert "id, é" in problem["detail"]


def test_rows_in_json(service):
    response = ask(service, "table", json={"rows": ROWS})
    assert values_of(response) == VALUES
    assert response.json()["unknown_features"] == 1
    check_problem(ask(service, "table", query="?strict=true", json={"rows": ROWS}), "unknown_feature", 422)


def test_numbered_features_of_a_table(service):
    assert values_of(ask(service, "table", "text/libsvm", content="0 1:2 4:1\n")) == [101.0]


@pytest.mark.parametrize(
    ("rows", "code", "row"),
    [
        ([{"size": "two", "proto": "tcp", "flag": "S0"}], "wrong_type", 1),
        ([ROWS[0], {"size": 1, "proto": "tcp"}], "missing_value", 2),
        ([ROWS[0], {"proto": "tcp", "flag": "S0"}], "missing_value", 2),
        ([{"proto": "tcp", "flag": "S0"}], "column_missing", None),
        ([{"size": 1e39, "proto": "tcp", "flag": "S0"}], "row_overflow", 1),
        ([], "no_rows", None),
        ([3], "wrong_type", None),
    ],
)
def test_faults_of_rows_in_json(service, rows, code, row):
    problem = check_problem(ask(service, "strict_table", json={"rows": rows}), code, 422)
    assert problem["at"].get("row") == row


def test_a_table_without_a_column(service):
    problem = check_problem(ask(service, "table", "text/csv", content="size,proto\n1,tcp\n"), "column_missing", 422)
    assert "flag" in problem["detail"]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/x-fasta", {"content": FASTA}),
        (None, {"content": FASTA}),
        ("text/plain", {"content": "ACAT\nGGGG\n"}),
        (None, {"json": {"strings": ["ACAT", "gggg"]}}),
    ],
)
def test_strings(service, kind, body, monkeypatch):
    monkeypatch.setattr(Predictor, "predict", by_letters)
    assert values_of(ask(service, "strings", kind, **body)) == [0.5, -1.5]


@pytest.mark.parametrize(
    ("name", "kind", "body", "code"),
    [
        ("strings", None, {"json": {"strings": ["ACGT", "ACG"]}}, "string_length"),
        ("strings", None, {"json": {"strings": ["AC-T"]}}, "not_a_base"),
        ("strings", None, {"json": {"strings": [""]}}, "empty_sequence"),
        ("strings", None, {"json": {"strings": []}}, "no_rows"),
        ("strings", None, {"json": {"strings": ["ACGT"], "rows": []}}, "unknown_field"),
        ("strings", "text/x-fasta", {"content": ">x\nACX\n"}, "not_a_base"),
        ("strings", "text/libsvm", {"content": "1 1:1\n"}, "input_mismatch"),
        ("table", None, {"json": {"strings": ["ACGT"]}}, "input_mismatch"),
        ("table", "text/x-fasta", {"content": FASTA}, "input_mismatch"),
    ],
)
def test_faults_of_strings(service, name, kind, body, code):
    check_problem(ask(service, name, kind, **body), code, 422)


def test_models_say_what_rows_are_made_of(service):
    shown = {name: service.request("GET", f"/v1/models/{id_}").json()["input"] for name, id_ in service.models.items()}
    assert shown["strings"] == STRINGS
    assert shown["table"]["category_counts"] == {"proto": 2, "flag": 1}
    assert "dictionary" not in shown["table"]
