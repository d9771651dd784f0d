"""Loads models that a service has logged to MLflow: `mlflow.pyfunc.load_model(uri)` calls `_load_pyfunc` here."""

from typing import Any

import numpy as np

from streamsvm.loading import load

_OUTPUTS = {"label": "predict", "decision_value": "decision_function", "probability": "predict_proba"}


class LoadedModel:
    """A model as MLflow's pyfunc calls it."""

    def __init__(self, path: str) -> None:
        self.estimator = load(path)

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> np.ndarray:
        """Predict rows: a frame with the columns of training, a matrix, documents or strings.

        params  {"output": "label" (default), "decision_value" or "probability"}
        Raises ValueError for another output, and errors of the estimator.
        """
        output = (params or {}).get("output", "label")
        if output not in _OUTPUTS:
            raise ValueError(f"output is one of {', '.join(_OUTPUTS)}, not {output!r}")
        return np.asarray(getattr(self.estimator, _OUTPUTS[output])(self._rows(model_input)))

    def _rows(self, given: Any) -> Any:
        """The rows as the estimator takes them; MLflow gives documents as a frame of one column."""
        input_ = self.estimator.model_.about.get("input") or {}
        if input_.get("format") in ("text", "fasta") and hasattr(given, "iloc") and given.shape[1] == 1:
            return given.iloc[:, 0].tolist()
        is_frame = hasattr(given, "to_numpy") and "columns" not in input_
        return given.to_numpy(np.float64) if is_frame else given


def _load_pyfunc(path: str) -> LoadedModel:
    """Load a model's file, for MLflow."""
    return LoadedModel(path)
