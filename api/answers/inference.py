"""Answers of the Open Inference Protocol."""

from typing import Literal

from streamsvm.api.answers import Answer, Label, field, sometimes


class Server(Answer):
    """The server's metadata."""

    name: str = field("name of the server", example="streamsvm")
    version: str = field("its version", example="0.3.0")
    extensions: list[str] = field("extensions of the protocol that it knows", example=["binary_tensor_data"])


class Live(Answer):
    """The process runs."""

    live: Literal[True] = field("always true")


class Ready(Answer):
    """The service works."""

    ready: Literal[True] = field("always true: a service that does not work answers with a problem")


class TensorMetadata(Answer):
    """A tensor that a model takes or gives."""

    name: str = field("its name", example="X")
    datatype: str = field("its datatype", example="FP64")
    shape: list[int] = field("its shape; -1: any length", example=[-1, 4])


class ModelParameters(Answer):
    """Parameters of a model."""

    labels: list[Label] = field("its labels, in the order of decision values and probabilities")


class ModelMetadata(Answer):
    """The tensors that a model takes and gives."""

    name: str = field("id of the model, or its name", example="mdl_01M8BJAJCVF2WHNP7BNYZN1BVC")
    versions: list[str] = field("its versions", example=["1"])
    platform: str = field("what the model is", example="streamsvm")
    inputs: list[TensorMetadata] = field(
        "tensors that it takes: `X`; or `indptr`, `indices` and `values`; or documents, strings or columns of a table"
    )
    outputs: list[TensorMetadata] = field("tensors that it gives")
    parameters: ModelParameters = sometimes("labels of a model of classes")


class ModelReady(Answer):
    """A model that can be applied."""

    name: str = field("id of the model, or its name", example="mdl_01M8BJAJCVF2WHNP7BNYZN1BVC")
    ready: Literal[True] = field("always true: a model that cannot be applied is a problem")


class IndexEntry(Answer):
    """A model in the index of the repository."""

    name: str = field("name of a registered model, or id of a model", example="churn")
    version: str = field("its version", example="3")
    state: str = field("`READY`")
    reason: str = field("why it is not ready; empty")


class TensorParameters(Answer):
    """Parameters of a tensor in an answer."""

    binary_data_size: int = field("bytes of its numbers, which follow the JSON")


class OutputTensor(Answer):
    """A tensor in an answer."""

    name: str = field("its name", example="label")
    datatype: str = field("its datatype", example="FP64")
    shape: list[int] = field("its shape", example=[2])
    data: list[float | str | None] = sometimes("its numbers or texts, flat; missing if they follow as bytes")
    parameters: TensorParameters = sometimes("how many bytes of it follow the JSON")


class InferenceParameters(Answer):
    """Columns of a table that the model does not have, and that were left out."""

    unknown_columns: int = field("number of these columns")
    unknown_column_names: str = field("their first names, with commas between")


class Inference(Answer):
    """The outputs of a model."""

    model_name: str = field("id of the model, or its name", example="mdl_01M8BJAJCVF2WHNP7BNYZN1BVC")
    model_version: str = field("its version", example="1")
    id: str = sometimes("`id` of the request, if it has one")
    parameters: InferenceParameters = sometimes("columns that were left out, if there are any")
    outputs: list[OutputTensor] = field("the outputs")
