"""The event loop predicts once the code of predictions is loaded; it is loaded whole."""

import subprocess
import sys

from streamsvm.api.routes import rows
from streamsvm.api.routes.rows import PredictionCode
from streamsvm.service.models.loaded import load_predictor
from tests.api.app import Service, some_model

# In a process of its own: the others have loaded some of the code already.
LOADS = """
import gc, io, sys
from pathlib import Path
from numba.core.dispatcher import Dispatcher
from streamsvm.api.app import create_app
from streamsvm.api.routes.rows import PredictionCode, predicted_rows
from streamsvm.reader.options import InputOptions
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.settings import Settings
from tests.api.app import model_of_texts, some_model
from tests.raw_models import table_model

def loaded():
    kernels = [each for each in gc.get_objects() if isinstance(each, Dispatcher)]
    return {*sys.modules, *((each.py_func.__qualname__, types) for each in kernels for types in each.overloads)}

settings = Settings(Path(sys.argv[1]))
code = PredictionCode()
code.load()
assert code.is_loaded
before = loaded()
bodies = ("json", b'{"rows": [{"1": 2.5}]}'), ("libsvm", b"1 1:0.1\\n"), ("csv", b"1,2,3,4\\n")
row = b'{"rows": [{"proto": "tcp", "size": 1, "flag": null}]}'
tables = ("json", row), ("auto", b"proto,size,flag\\ntcp,1,S0\\n")
models = [(some_model(), bodies), (model_of_texts(), bodies), (table_model(), tables)]
models.append((table_model(categories="hashed", n_features=3), tables))
for model, rows in models:
    for kind, body in rows:
        predicted_rows(Predictor(model), InputOptions(kind), [body], io.BytesIO())
print(sorted(map(str, loaded() - before)))
"""


def test_predictions_load_nothing_more(tmp_path):
    done = subprocess.run([sys.executable, "-c", LOADS, tmp_path], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stdout + done.stderr


def test_until_the_code_is_loaded_a_thread_predicts(tmp_path, in_threads):
    service = Service(tmp_path)
    model = service.add_model(service.add_dataset("data"), some_model())
    load_predictor(service.settings, model)
    for _ in range(2):
        assert service.request("POST", f"/v1/models/{model}/predict", json={"rows": [{"1": 1}]}).is_success
    assert len(in_threads) == 2
    service.app.state.prediction_code.load()
    assert service.request("POST", f"/v1/models/{model}/predict", json={"rows": [{"1": 1}]}).is_success
    assert len(in_threads) == 2


def test_code_that_cannot_be_loaded_leaves_predictions_to_threads_and_says_so(monkeypatch, caplog):
    def fail():
        raise OSError("no file of numba's")

    monkeypatch.setattr(rows, "samples", fail)
    code = PredictionCode()
    code.load()
    assert not code.is_loaded and "threads predict all rows" in caplog.text
