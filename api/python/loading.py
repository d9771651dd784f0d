"""Reads model files as fitted estimators."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from streamsvm.errors import told_plainly
from streamsvm.prediction import FittedModel
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.formats import stored_format
from streamsvm.storage.models.model_file import Model

if TYPE_CHECKING:
    from streamsvm.classifier import StreamSVC
    from streamsvm.regressor import StreamSVR


def load(path: str | os.PathLike[str]) -> "StreamSVC | StreamSVR | FittedModel":
    """Read a model file as a fitted estimator: .npz or .onnx by the file's ending, else LIBLINEAR's or LIBSVM's text.

    Column j of X is the feature with number `model_.index_base` + j of the training data. Without scikit-learn, `load`
    returns an object with `predict` and `decision_function` that is no estimator.

    Raises
    ------
    InvalidInput
        The file is not a model of that format, or is damaged.
    FileNotFoundError
        There is no such file.
    """
    with told_plainly(), Path(path).open("rb") as file:
        model = MODEL_FORMATS[stored_format(path)].read(file)
    return _fitted(model)


def _fitted(model: Model) -> "StreamSVC | StreamSVR | FittedModel":
    try:
        # Estimators need scikit-learn, an extra that is slow to import.
        from streamsvm.classifier import StreamSVC  # noqa: PLC0415
        from streamsvm.regressor import StreamSVR  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "sklearn":
            raise
        return FittedModel(model)
    kind = StreamSVR if model.is_regression else StreamSVC
    names = {"C", "loss", "solver", "epsilon", "multiclass", "probability", "max_passes", "seed", "pace"}
    fields = {**model.about.get("spec", {}), **model.about}
    if model.vectors is not None:
        names |= {"kernel", "gamma", "budget"}
        fields = {"gamma": model.vectors.gamma, **fields, "kernel": "rbf"}
    parameters = names & set(kind().get_params()) & {name for name, value in fields.items() if value is not None}
    ends = {name: fields[name] for name in ("tolerance", "relative_gap") if name in fields}
    return kind(**{name: fields[name] for name in parameters}, **ends, bias=model.bias)._be(model)
