"""Models of the bodies of requests in JSON, for the OpenAPI document. Routes check bodies themselves."""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict

from streamsvm.api.answers import field, ref, sometimes


class Body(BaseModel):
    """The base of bodies, which have no other fields than these."""

    model_config = ConfigDict(extra="forbid")


_Value = float | bool | str | None


class RowsToPredict(Body):
    """Rows to predict: an object each, feature -> value or column -> value, or an array of all values in order."""

    rows: list[dict[str, _Value] | list[_Value]] = field("the rows", example=[{"3": 0.5, "17": 1.2}])


class DocumentsToPredict(Body):
    """Documents to predict."""

    documents: list[str] = field("the documents", example=["a text"])


class StringsToPredict(Body):
    """Strings of bases to predict."""

    strings: list[str] = field("the strings", example=["ACGT"])


class EvaluationRequest(Body):
    """The dataset that a model is evaluated on."""

    dataset: str = field("name of the dataset", example="rcv1")


class RegistrationRequest(Body):
    """The name that a model gets."""

    name: str = field("the name", example="churn")


class AliasRequest(Body):
    """The version that an alias is to point at."""

    version: int = field("the version", example=3)


class BinaryParameters(BaseModel):
    """Parameters of a tensor in a request."""

    binary_data_size: int = sometimes("bytes of its numbers, which follow the JSON")


class InputTensor(BaseModel):
    """A tensor in a request."""

    name: str = field("its name", example="X")
    datatype: str = field("its datatype", example="FP64")
    shape: list[int] = field("its shape", example=[2, 4])
    data: list[float | bool | str | list[float]] = sometimes(
        "its numbers or texts, flat or nested; missing if they follow as bytes"
    )
    parameters: BinaryParameters = sometimes("how many bytes of it follow the JSON")


class OutputParameters(BaseModel):
    """Parameters of an output that is asked for."""

    binary_data: bool = sometimes("whether its numbers shall follow the JSON as bytes")


class RequestedOutput(BaseModel):
    """An output that is asked for."""

    name: str = field("its name", example="label")
    parameters: OutputParameters = sometimes("the form that it shall have")


class InferenceParametersRequest(BaseModel):
    """Parameters of a request."""

    binary_data_output: bool = sometimes("whether numbers of all outputs shall follow the JSON as bytes")


class InferenceRequest(BaseModel):
    """Tensors to predict."""

    id: str = sometimes("any text, which the answer repeats")
    inputs: list[InputTensor] = field("the tensors of the rows")
    outputs: list[RequestedOutput] = sometimes("the outputs that are asked for; missing or empty: all")
    parameters: InferenceParametersRequest = sometimes("the form of outputs")


PREDICTABLE = RowsToPredict, DocumentsToPredict, StringsToPredict
MODELS = *PREDICTABLE, EvaluationRequest, RegistrationRequest, AliasRequest, InferenceRequest


def body_of(*models: type[BaseModel], files: Iterable[str] = ()) -> dict[str, Any]:
    """The `openapi_extra` of a route that takes an object of one of these models, or a file of one of these types."""
    content = {**{kind: {"schema": _file(kind)} for kind in files}, "application/json": {"schema": ref(*models)}}
    return {"requestBody": {"required": True, "content": content}}


def _file(media_type: str) -> dict[str, str]:
    return {"type": "string"} if media_type.startswith("text/") else {"type": "string", "format": "binary"}
