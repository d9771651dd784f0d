"""The command that a model's page shows predicts as it stands, whatever the model was trained on."""

import html
import re
import subprocess

import numpy as np
import pytest

from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.options import InputOptions
from streamsvm.storage.models.model_file import Model
from tests.api.app import Service

CSV = {"format": "csv", "label_column": "y"}
INPUTS = {
    "one feature": (b"1 1:2\n-1 1:3\n", {}),
    "from 0": (b"1 0:2 6:1\n-1 1:3\n", {"index_base": 0}),
    "a table": (b"y,a,b\n1,0.5,3\n0,1.5,4\n", CSV),
    "words": (b"y,a,col\n1,0.5,red\n0,1.5,blue\n", {**CSV, "categorical": ("col",)}),
    "odd names": (b'y,"it\'s, 5%","a\\""b"\n1,0.5,3\n0,1.5,4\n', CSV),
    "no names": (b"1,0.5,3\n0,1.5,4\n", {"format": "csv"}),
    "tabs": (b"y\ta\tb\n1\t0.5\t3\n0\t1.5\t4\n", {"format": "tsv", "label_column": "y"}),
    "texts": (b"1\tone text\n-1\tanother\n", {"format": "text"}),
}


@pytest.mark.parametrize("name", INPUTS)
def test_the_command_predicts(tmp_path, name):
    service = Service(tmp_path)
    text, options = INPUTS[name]
    manifest = ingest([text], tmp_path / "read", InputOptions(**options))
    about = {"loss": "hinge", **({} if manifest.input is None else {"input": manifest.input})}
    width = manifest.n_features
    model = service.add_model(
        service.add_dataset("data"), Model(np.ones(width), (1.0, -1.0), manifest.index_base, about=about)
    )
    shown = re.search('<pre id="example">(.*?)</pre>', service.request("GET", f"/models/{model}").text)
    printf, kind = re.fullmatch(
        r"(printf .*) \| curl -H 'Content-Type: (.*)' --data-binary @- .*", html.unescape(shown[1])
    ).groups()
    body = subprocess.run(["sh", "-c", printf], capture_output=True, check=True).stdout
    answer = service.request("POST", f"/v1/models/{model}/predict", content=body, headers={"Content-Type": kind})
    assert answer.status_code == 200, (answer.text, body)
    assert answer.json()["rows"] == body.count(b"\n") - ("label_column" in options)
    assert not answer.json().get("unknown_columns")


def test_a_table_of_many_columns_has_a_file_in_its_command(tmp_path):
    service = Service(tmp_path)
    input_ = {"format": "csv", "has_names": True, "columns": [f"c{k}" for k in range(200)]}
    model = Model(np.ones(200), (1.0, -1.0), 1, about={"loss": "hinge", "input": input_})
    text = service.request("GET", f"/models/{service.add_model(service.add_dataset('data'), model)}").text
    assert '<pre id="example">curl --data-binary @FILE http://localhost/v1/models/' in text
