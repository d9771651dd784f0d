"""Triton's own HTTP client, of NVIDIA, gets predictions from a running service."""

import httpx
import numpy as np
import pytest
import tritonclient.http as triton
from scipy import sparse
from tritonclient.utils import InferenceServerException

from tests.end_to_end.conftest import ENDLESS
from tests.end_to_end.service import PATIENCE_SECONDS
from tests.pages import blocks, page, section


@pytest.fixture(scope="module", params=[{}, {"kernel": "rbf", "gamma": 0.5, "budget": 50}], ids=["linear", "kernel"])
def model_id(service, request):
    return service.wait_until_ended(service.submit(**{**ENDLESS, "max_passes": 3, **request.param}))["model_id"]


@pytest.fixture
def client(service):
    with triton.InferenceServerClient(service.url.removeprefix("http://")) as client:
        yield client


@pytest.fixture(scope="module")
def expected(service, model_id, text):
    """(labels, decision values) of the problem's rows."""
    url = f"{service.url}/v1/models/{model_id}/predict"
    predictions = httpx.post(url, content=text, timeout=PATIENCE_SECONDS).json()["predictions"]
    return tuple(np.array([row[name] for row in predictions]) for name in ("label", "decision_value"))


def tensor(name: str, array: np.ndarray, binary: bool) -> triton.InferInput:
    made = triton.InferInput(name, array.shape, triton.np_to_triton_dtype(array.dtype))
    made.set_data_from_numpy(array, binary_data=binary)
    return made


def agrees(answer: triton.InferResult, expected) -> None:
    np.testing.assert_array_equal(answer.as_numpy("label"), expected[0])
    np.testing.assert_allclose(answer.as_numpy("decision_value"), expected[1], rtol=1e-9, atol=1e-9)


def test_it_finds_the_service_and_the_model_ready(client, model_id):
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(model_id)
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    assert [tensor["name"] for tensor in client.get_model_metadata(model_id)["outputs"]] == ["label", "decision_value"]


@pytest.mark.parametrize("binary_input", [True, False])
@pytest.mark.parametrize("binary_output", [True, False, None])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dense_rows(client, model_id, problem, expected, dtype, binary_input, binary_output):
    X = problem[0][:300].toarray().astype(dtype)
    names = ("label", "decision_value")
    outputs = None if binary_output is None else [triton.InferRequestedOutput(name, binary_output) for name in names]
    answer = client.infer(model_id, [tensor("X", X, binary_input)], outputs=outputs)
    agrees(answer, [values[:300] for values in expected])


@pytest.mark.parametrize(
    "dtype", [bool, *(f"{kind}{8 * n}" for kind in ("uint", "int") for n in (1, 2, 4, 8)), "float16"]
)
@pytest.mark.parametrize("binary", [True, False])
def test_other_types_say_the_same(client, model_id, problem, dtype, binary):
    """Dense and sparse."""
    X = (problem[0][:50].toarray() > 0.3).astype(dtype)
    if dtype == "float16" and not binary:
        pytest.skip("Triton's client sends it in binary alone")
    rows = sparse.csr_matrix(X.astype(float))
    parts = {"indptr": rows.indptr, "indices": rows.indices + 1, "values": rows.data.astype(dtype)}
    same = client.infer(model_id, [tensor("X", X.astype("float64"), True)])
    for inputs in ({"X": X}, parts):
        found = client.infer(model_id, [tensor(*part, binary) for part in inputs.items()])
        np.testing.assert_allclose(found.as_numpy("decision_value"), same.as_numpy("decision_value"), rtol=1e-12)


def test_the_version_of_the_metadata_is_there(client, model_id, problem, expected):
    (version,) = client.get_model_metadata(model_id)["versions"]
    assert client.get_model_metadata(model_id, version)["name"] == model_id
    assert client.is_model_ready(model_id, version) and not client.is_model_ready(model_id, "2")
    X = problem[0][:9].toarray()
    agrees(client.infer(model_id, [tensor("X", X, True)], model_version=version), [each[:9] for each in expected])
    with pytest.raises(InferenceServerException, match="no such version"):
        client.infer(model_id, [tensor("X", X, True)], model_version="2")


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("binary", [True, False])
def test_sparse_rows(client, model_id, problem, expected, index, binary):
    X = problem[0]
    rows = {"indptr": X.indptr.astype(index), "indices": (X.indices + 1).astype(index), "values": X.data}
    agrees(client.infer(model_id, [tensor(*part, binary) for part in rows.items()]), expected)


def test_it_can_read_the_errors(client, model_id):
    with pytest.raises(InferenceServerException, match="no such model") as caught:
        client.infer("mdl_0", [tensor("X", np.zeros((1, 1)), True)])
    assert caught.value.status() == "404"
    with pytest.raises(InferenceServerException, match=r"X has the shape \[1, 1\]"):
        client.infer(model_id, [tensor("X", np.zeros((1, 1)), True)])


def test_the_example_of_the_page(service, model_id, problem, expected):
    (program,) = blocks(section(page("api"), "Open Inference Protocol"), "python")
    found: dict = {"rows": problem[0], "model_id": model_id}
    exec(program.replace("localhost:8000", service.url.removeprefix("http://")), found)
    np.testing.assert_array_equal(found["labels"], expected[0])
    np.testing.assert_allclose(found["decision"], expected[1], rtol=1e-9, atol=1e-9)
