"""Feature maps through the service: strings and curves, jobs, models that take raw rows."""

import io

import httpx
import numpy as np

from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.predicting.predictor import Predictor
from tests.contracts.problems import libsvm_text
from tests.end_to_end.service import PLAIN


def upload(service, name, data, **query):
    url = f"{service.url}/v1/datasets/{name}?" + "&".join(f"{key}={value}" for key, value in query.items())
    answer = httpx.put(url, content=data, **PLAIN)
    assert answer.status_code == 201, answer.text
    return answer.json()


def post(service, ended, route, **request):
    return httpx.post(f"{service.url}/v1/models/{ended['model_id']}/{route}", **request, **PLAIN)


def strings(n_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    texts = ["".join(rng.choice(list("ACGT"), 50)) for _ in range(n_rows)]
    y = np.where(rng.random(n_rows) < 0.4, 1, -1)
    return y, [text[:20] + "CAGGT" + text[25:] if label > 0 else text for label, text in zip(y, texts, strict=True)]


def fasta(y, texts) -> bytes:
    return "".join(f"> label={label}\n{text}\n" for label, text in zip(y, texts, strict=True)).encode()


def test_strings_are_trained_on_and_predicted_as_they_are(service):
    y, texts = strings()
    assert upload(service, "strings", fasta(y, texts), format="fasta")["input"]["length"] == 50
    refused = httpx.post(f"{service.url}/v1/jobs", json={"dataset": "strings"}, **PLAIN)
    assert (refused.status_code, refused.json()["code"]) == (422, "features_missing")
    for features in ([{"weighted_degree": {"degree": 4}}], [{"weighted_degree": {"degree": 4}}, "bias"]):
        ended = service.train(dataset="strings", features=features, tolerance=1e-6, max_passes=300)
        y_test, others = strings(200, seed=1)
        by_json = post(service, ended, "predict", json={"strings": others}).json()["predictions"]
        by_text = post(
            service, ended, "predict", content=fasta(y_test, others), headers={"Content-Type": "text/x-fasta"}
        ).json()["predictions"]
        assert by_json == by_text
        assert np.mean([each["label"] for each in by_json] == y_test) > 0.95
    stored = MODEL_FORMATS["npz"].read(io.BytesIO(service.model(ended, "npz")))
    values = [p.decision_values for p in Predictor(stored).predict_text([fasta(y_test, others)])]
    np.testing.assert_allclose(np.concatenate(values), [each["decision_value"] for each in by_json], atol=1e-12)
    for format_ in ("liblinear", "onnx"):
        answer = httpx.get(f"{service.url}/v1/models/{ended['model_id']}/file?format={format_}", **PLAIN)
        assert (answer.status_code, answer.json()["code"]) == (422, "not_exportable")
    judged = post(service, ended, "evaluate", json={"dataset": "strings"}).json()
    assert judged["accuracy"] > 0.99


def ring(n_rows=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n_rows, 2)).astype(np.float32)
    return X, np.where((X**2).sum(axis=1) < 2.0, 1.0, -1.0)


def test_lanes_and_folds_train_on_mapped_rows(service):
    upload(service, "lanes", libsvm_text(*ring(300)))
    fields = {"dataset": "lanes", "features": ["scale", {"pairs": {"squares": True}}], "bias": 1.0}
    ended = service.train(**fields, C=[0.1, 1.0, 10.0], folds=3, probability="sigmoid", max_passes=300)
    assert ended["result"]["selected_C"] in (1.0, 10.0)
    model = httpx.get(f"{service.url}/v1/models/{ended['model_id']}", **PLAIN).json()
    assert [each["name"] for each in model["maps"]] == ["scale", "pairs"]
    X, _ = ring(50, seed=1)
    found = post(service, ended, "predict", json={"rows": [{"1": float(a), "2": float(b)} for a, b in X]}).json()
    assert len(found["predictions"][0]["probability"]) == 2
