"""Datasets of tables with categories and of strings: what they are made of, and some of their rows."""

import re

import numpy as np
import pytest

from streamsvm.api.pages.forms import input_fields
from streamsvm.reader.options import OPTIONS
from streamsvm.reader.parsers import READERS
from streamsvm.storage.rows.csr import LARGE_W
from tests.api.app import Service, check_problem
from tests.api.test_pages import table
from tests.contracts.problems import random_problem

TABLE = b"label,proto,size\nyes,tcp,1.5\nno,<b>,\nyes,tcp,3\n"
FASTA = b">label=1\nACGTN\n>label=-1\nttttt\n"


@pytest.fixture
def service(tmp_path):
    service = Service(tmp_path)
    query = "categorical=proto&missing=indicator"
    assert service.request("PUT", f"/v1/datasets/table?{query}", content=TABLE).status_code == 201
    assert service.request("PUT", "/v1/datasets/dna", content=FASTA).status_code == 201
    return service


def sample(service, name: str) -> list[dict]:
    rows = service.request("GET", f"/v1/datasets/{name}/sample").json()["rows"]
    return sorted(rows, key=repr)


def test_what_rows_are_made_of(service):
    shown = service.request("GET", "/v1/datasets/table").json()
    assert shown["input"] == {
        "format": "csv", "has_names": True, "order": "names", "n_columns": 3, "places": [1, 2],
        "columns": ["proto", "size"], "categorical": ["proto"], "missing": "indicator", "categories": "dictionary",
        "category_counts": {"proto": 2},
        "label_column": "label", "header": "yes",
    }  # fmt: skip
    shown = service.request("GET", "/v1/datasets/dna").json()
    assert shown["input"] == {"format": "fasta", "length": 5, "alphabet": "ACGT"}
    assert shown["unknown_letters"] == 1
    service.add_dataset("plain")
    assert service.request("GET", "/v1/datasets/plain").json()["input"] is None


def test_rows_of_a_table(service):
    rows = sample(service, "table")
    names = [{each["name"]: each["value"] for each in row["features"]} for row in rows]
    assert [row["label"] for row in rows] == ["no", "yes", "yes"]
    assert names == [
        {"size is missing": 1.0, "proto=<b>": 1.0}, {"size": 1.5, "proto=tcp": 1.0}, {"size": 3.0, "proto=tcp": 1.0},
    ]  # fmt: skip
    assert [row["non_zeros"] for row in rows] == [2, 2, 2]


def test_rows_of_strings(service):
    assert sample(service, "dna") == [
        {"label": "-1", "string": "TTTTT", "letters": 5}, {"label": "1", "string": "ACGTN", "letters": 5},
    ]  # fmt: skip


def test_features_have_the_numbers_of_the_input(service):
    far = LARGE_W + 7
    text = "".join(f"1 {k + 1}:1 {far}:{k + 1}\n" for k in range(3)).encode()
    assert service.request("PUT", "/v1/datasets/wide?format=libsvm", content=text).status_code == 201
    pairs = [[(each["feature"], each["value"]) for each in row["features"]] for row in sample(service, "wide")]
    assert sorted(pairs) == [[(k + 1, 1.0), (far, k + 1.0)] for k in range(3)]


def test_long_rows_are_cut(service):
    X, y = random_problem(60, 200)
    X = X.tolil()
    X[:, :] = np.ones(X.shape)
    service.add_dataset("long", X.tocsr(), y)
    rows = sample(service, "long")
    assert len(rows) == 10
    assert {(row["non_zeros"], len(row["features"])) for row in rows} == {(200, 25)}


def test_there_is_no_such_dataset(service):
    check_problem(service.request("GET", "/v1/datasets/none/sample"), "unknown_dataset", 404)


def test_the_page_shows_rows(service):
    text = service.request("GET", "/datasets/table").text
    rows = sorted(table(text, "sample"))
    assert rows[0] == ["no", "size is missing: 1, proto=&lt;b&gt;: 1"]
    assert sorted(row[0] for row in table(text, "features")) == [
        "proto=&lt;b&gt;", "proto=tcp", "size", "size is missing",
    ]  # fmt: skip
    assert "a table of 3 columns with names, 1 of categories" in text and "<b>" not in text
    text = service.request("GET", "/datasets/dna").text
    assert sorted(table(text, "sample")) == [["-1", "TTTTT"], ["1", "ACGTN"]]
    assert "strings of 5 bases" in text and "squared norm" not in text
    assert "non-zeros" not in text.split('id="blocks"')[0]


def test_the_form_has_the_options_of_each_format(service):
    text = service.request("GET", "/").text
    (form,) = re.findall(r'<form class="card" id="upload">.*?</form>', text, re.DOTALL)
    fields = re.findall(r'<label data-formats="([^"]*)">[^<]*<(?:input|select) name="(\w+)"', form)
    shown = {name: set(formats.split()) for formats, name in fields}
    assert shown["categorical"] == {"csv", "tsv", "jsonl", "parquet", "arrow", "orc"}
    for name, formats in shown.items():
        assert formats == {format_ for format_, own in READERS.items() if name in own} or formats == {*READERS}
    assert 'data-formats=""' not in form and 'name="on_bad_row"' in form
    assert {field.name for field in input_fields()} <= set(OPTIONS)
