"""Tensors of the Open Inference Protocol: JSON and bytes hold the same arrays; other input is refused."""

import numpy as np
import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.models.predicting.tensors import DATATYPES, read_tensors, wanted_outputs, write_tensors

NONE = memoryview(b"")


def in_json(name, array, datatype, **changes):
    return {"name": name, "shape": list(array.shape), "datatype": datatype, "data": array.tolist(), **changes}


def in_binary(name, array, datatype, **changes):
    size = array.astype(DATATYPES[datatype]).nbytes
    return {"name": name, "shape": list(array.shape), "datatype": datatype, "parameters": {"binary_data_size": size}}


@pytest.mark.parametrize("datatype", DATATYPES)
@pytest.mark.parametrize("shape", [(2, 3), (6,), (0,), (0, 4)])
def test_json_and_bytes_say_the_same(datatype, shape):
    numbers = np.arange(np.prod(shape)).reshape(shape) - (0 if datatype.startswith(("U", "B")) else 2)
    array = (numbers / 3 if datatype.startswith("FP") else numbers % 2 if datatype == "BOOL" else numbers).astype(
        DATATYPES[datatype]
    )
    binary = memoryview(array.tobytes() * 2)
    described = [in_json("a", array, datatype), in_binary("b", array, datatype), in_binary("c", array, datatype)]
    found = read_tensors(described, binary)
    for name in "abc":
        assert found[name].shape == shape
        assert found[name].tolist() == array.tolist()


def test_nested_data_may_come_flat():
    (found,) = read_tensors([{"name": "X", "shape": [2, 2], "datatype": "FP64", "data": [1, 2.5, 3, 4]}], NONE).values()
    assert found.tolist() == [[1, 2.5], [3, 4]]


@pytest.mark.parametrize(("datatype", "value"), [("INT32", 2**40), ("UINT8", -1), ("INT8", 128), ("UINT64", -1)])
def test_whole_numbers_of_json_are_never_wrapped_round(datatype, value):
    with pytest.raises(ServiceError, match="beyond its datatype"):
        read_tensors([{"name": "i", "shape": [1], "datatype": datatype, "data": [value]}], NONE)


VECTOR = {"name": "X", "shape": [2], "datatype": "FP64", "data": [1, 2]}
BYTES = {"name": "X", "shape": [2], "datatype": "FP64", "parameters": {"binary_data_size": 16}}


@pytest.mark.parametrize(
    ("inputs", "binary"),
    [
        (None, b""),
        ([1], b""),
        ([{**VECTOR, "name": 1}], b""),
        ([{**VECTOR, "datatype": "BYTES"}], b""),
        ([{**VECTOR, "datatype": ["FP64"]}], b""),
        ([{**VECTOR, "shape": [3]}], b""),
        ([{**VECTOR, "shape": [-1]}], b""),
        ([{**VECTOR, "shape": [True, 2]}], b""),
        ([{**VECTOR, "shape": [1] * 9}], b""),
        ([{**VECTOR, "shape": [2**61, 2**61]}], b""),
        ([{**VECTOR, "data": 1}], b""),
        ([{**VECTOR, "data": [[1], [2, 3]]}], b""),
        ([{**VECTOR, "data": ["1", "2"]}], b""),
        ([{**VECTOR, "data": [True, False]}], b""),
        ([{**VECTOR, "data": [None, 1]}], b""),
        ([{**VECTOR, "datatype": "BOOL"}], b""),
        ([{**VECTOR, "datatype": "BF16"}], b""),
        ([{**VECTOR, "data": [1, 10**30]}], b""),
        ([{**VECTOR, "datatype": "INT64", "data": [1.0, 2.0]}], b""),
        ([{**VECTOR, "parameters": []}], b""),
        ([VECTOR, VECTOR], b""),
        ([VECTOR], b"more"),
        ([BYTES], b"x" * 15),
        ([BYTES], b"x" * 17),
        ([{**BYTES, "parameters": {"binary_data_size": 12}}], b"x" * 12),
        ([{**BYTES, "parameters": {"binary_data_size": -8}}], b"x" * 8),
        ([{**BYTES, "parameters": {"binary_data_size": "16"}}], b"x" * 16),
    ],
)
def test_what_is_no_tensor(inputs, binary):
    with pytest.raises(ServiceError) as caught:
        read_tensors(inputs, memoryview(binary))
    assert caught.value.code == "bad_tensor"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_are_finite(value):
    with pytest.raises(ServiceError) as caught:
        read_tensors([BYTES], memoryview(np.array([1.0, value]).tobytes()))
    assert caught.value.code == "not_finite"
    with pytest.raises(ServiceError):
        read_tensors([{**VECTOR, "datatype": "FP32", "data": [1.5, 1e300]}], NONE)


def test_outputs_come_as_they_are_wanted():
    known = ("label", "decision_value")
    assert wanted_outputs({}, known) == {"label": False, "decision_value": False}
    assert wanted_outputs({"parameters": {"binary_data_output": True}}, known) == dict.fromkeys(known, True)
    wanted = [{"name": "label", "parameters": {"binary_data": True}}]
    assert wanted_outputs({"outputs": wanted}, known) == {"label": True}
    for outputs in ([{"name": "probability"}], [{}], ["label"], {"name": "label"}):
        with pytest.raises(ServiceError):
            wanted_outputs({"outputs": outputs}, known)


def test_outputs_are_written_in_json_or_behind_it():
    arrays = {"a": np.array([1.5, np.inf]), "b": np.array([2.0])}
    described, binary = write_tensors(arrays, {"b"})
    assert described[0] == {"name": "a", "datatype": "FP64", "shape": [2], "data": [1.5, None]}
    assert described[1]["parameters"] == {"binary_data_size": 8}
    assert binary == np.array([2.0]).tobytes()


def test_texts_are_written_with_their_lengths_in_binary_and_as_they_are_in_json():
    texts = np.array(["ham", "", "ü"])
    (output,), data = write_tensors({"label": texts}, ["label"])
    assert data == b"\x03\0\0\0ham\0\0\0\0\x02\0\0\0\xc3\xbc"
    assert output == {"name": "label", "datatype": "BYTES", "shape": [3], "parameters": {"binary_data_size": len(data)}}
    (output,), data = write_tensors({"label": texts}, [])
    assert (output["data"], data) == (["ham", "", "ü"], b"")


def test_a_matrix_is_written_row_by_row():
    (output,), _ = write_tensors({"decision_value": np.asfortranarray([[1.0, 2.0], [3.0, 4.0]])}, [])
    assert (output["shape"], output["data"]) == ([2, 2], [1.0, 2.0, 3.0, 4.0])
    _, data = write_tensors({"decision_value": np.asfortranarray([[1.0, 2.0], [3.0, 4.0]])}, ["decision_value"])
    assert np.frombuffer(data).tolist() == [1.0, 2.0, 3.0, 4.0]
