"""Model files as fitted estimators."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from streamsvm.errors import told_plainly
from streamsvm.prediction import FittedModel
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.names import stored_format
from streamsvm.storage.models.model_file import Model

if TYPE_CHECKING:
    from streamsvm.classifier import StreamSVC
    from streamsvm.regressor import StreamSVR


def load(path: str | os.PathLike[str]) -> "StreamSVC | StreamSVR | FittedModel":
    """A model file, LIBLINEAR's or LIBSVM's text, or .npz, .json or .onnx by its name, as a fitted estimator.

    Column j of X is the feature with the number `model_.index_base` + j in the data it was trained on. Without
    scikit-learn what comes back has `predict` and the like, and is no estimator.

    Raises
    ------
    InvalidInput
        The file is no model of that format, or is damaged.
    FileNotFoundError
        There is none.
    """
    with told_plainly(), Path(path).open("rb") as file:
        model = MODEL_FORMATS[stored_format(path)].read(file)
    return _fitted(model)


def _fitted(model: Model) -> "StreamSVC | StreamSVR | FittedModel":
    try:
        # An extra, and slow to import.
        from streamsvm.classifier import StreamSVC  # noqa: PLC0415
        from streamsvm.regressor import StreamSVR  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "sklearn":
            raise
        return FittedModel(model)
    kind = StreamSVR if model.is_regression else StreamSVC
    names = {"C", "loss", "solver", "epsilon", "multiclass", "probability", "tolerance", "max_passes", "seed", "pace"}
    told = {**model.about.get("spec", {}), **model.about}
    if model.vectors is not None:
        names |= {"kernel", "gamma", "budget"}
        told = {"gamma": model.vectors.gamma, **told, "kernel": "rbf"}
    known = names & set(kind().get_params()) & {name for name, value in told.items() if value is not None}
    return kind(**{name: told[name] for name in known}, bias=model.bias)._be(model)
