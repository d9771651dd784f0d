"""A kernel machine over HTTP: shown, asked for predictions, on the pages; its page offers the formats that hold it."""

import numpy as np
import pytest
from scipy import sparse

from streamsvm.service.models.exports import MODEL_FORMATS
from tests.api.app import CERTIFICATE, Service
from tests.contracts.problems import libsvm_text, random_problem
from tests.machines import numpys_values, random_machine

ABOUT = {"loss": "hinge", "C": 0.5, "spec": {"dataset": "data", "C": 0.5, "loss": "hinge"}, "certificate": CERTIFICATE}
MACHINE = random_machine(30, 40, (1.0, -1.0), about=ABOUT)
SEVERAL = random_machine(30, 40, (5.0, -1.0, 2.0), about=ABOUT)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("service"))
    dataset_id = service.add_dataset("data", *random_problem(60, 40))
    service.machine, service.several = (service.add_model(dataset_id, model) for model in (MACHINE, SEVERAL))
    return service


def test_it_is_shown(service):
    shown = service.request("GET", f"/v1/models/{service.machine}").json()
    assert (shown["kernel"], shown["gamma"], shown["support_vectors"], shown["features"]) == ("rbf", 0.3, 30, 40)
    assert shown["bias"] is None


def test_rows_are_predicted(service):
    X = random_problem(60, 50)[0]
    url, expected = f"/v1/models/{service.several}/predict", numpys_values(SEVERAL, X)
    answer = service.request("POST", url, content=libsvm_text(X, np.ones(60))).json()
    values = [row["decision_value"] for row in answer["predictions"]]
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)
    assert answer["unknown_features"] == sparse.csr_matrix(X)[:, 40:].nnz > 0
    rows = [{str(f + 1): float(v) for f, v in zip(row.indices, row.data, strict=True)} for row in X]
    assert service.request("POST", url, json={"rows": rows}).json() == answer


def test_its_page_has_the_formats_that_hold_it(service):
    for name, texts in (("machine", {"libsvm"}), ("several", set())):
        page = service.request("GET", f"/models/{getattr(service, name)}").text
        offered = {format_ for format_ in MODEL_FORMATS if f"file?format={format_}" in page}
        assert offered == texts | {"npz", "onnx"}
        assert "30 support vectors" in page
