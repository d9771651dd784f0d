"""What a data scientist writes in an afternoon: FastAPI around a scikit-learn model, in one file.

`MODEL=model.pickle uvicorn tests.bench.peers.one_file:app` answers POST /predict.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()
model = pickle.loads(Path(os.environ["MODEL"]).read_bytes())


class Rows(BaseModel):
    """Rows of numbers, (n_rows, n_features)."""

    rows: list[list[float]]


@app.post("/predict")
def predict(body: Rows) -> dict[str, Any]:
    """Labels and decision values."""
    X = np.array(body.rows)
    return {"labels": model.predict(X).tolist(), "decision_values": model.decision_function(X).tolist()}
