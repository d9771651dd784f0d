"""The answer to GET /v1/info."""

from streamsvm.api.answers import Answer, field


class Abilities(Answer):
    """Abilities that depend on what is installed and configured."""

    tokens: bool = field("whether requests need a token")
    parquet: bool = field("whether Parquet can be read")
    onnx: bool = field("whether models can be written as ONNX")


class Formats(Answer):
    """Formats of data and models."""

    datasets: list[str] = field("formats of data", example=["libsvm", "csv"])
    models: list[str] = field("formats of model files", example=["liblinear", "npz"])


class Info(Answer):
    """Version, limits and abilities of the service."""

    version: str = field("version of the service", example="0.3.0")
    limits: dict[str, float] = field("limits, in bytes, seconds or numbers", example={"max_json_bytes": 1048576})
    features: Abilities = field("abilities")
    solvers: list[str] = field("solvers that jobs can take", example=["streamsvm"])
    losses: list[str] = field("losses that jobs can take", example=["hinge"])
    formats: Formats = field("formats of data and models")
