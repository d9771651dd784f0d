"""The server of `one_file` with onnxruntime in place of scikit-learn.

`MODEL=model.onnx uvicorn tests.bench.peers.one_file_onnx:app` answers POST /predict.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import onnxruntime
from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()
model = onnxruntime.InferenceSession(os.environ["MODEL"], providers=["CPUExecutionProvider"])


class Rows(BaseModel):
    """Rows of numbers, (n_rows, n_features)."""

    rows: list[list[float]]


@app.post("/predict")
def predict(body: Rows) -> dict[str, Any]:
    """Labels and decision values."""
    labels, values = model.run(["labels", "decision_values"], {"X": np.array(body.rows)})
    return {"labels": labels.tolist(), "decision_values": values[:, 0].tolist()}
