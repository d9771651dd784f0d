"""Scores models on the rows that they were trained on; the certificate pass has their decision values anyway."""

import numpy as np

from streamsvm.reader.certificate.metrics import NumberErrors
from streamsvm.storage.models.decision import predicted_classes
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.tasks import Tasks


class TrainingScores:
    """Accuracy of each model of a run, or r2 in regression; `add` all rows. A row counts as much as its weight.

    A model of more than two classes has a task for each; if a run has only some of them, it has no score.
    """

    def __init__(self, tasks: Tasks) -> None:
        self._width, self._models = tasks.width, tasks.models
        self._weight, self._right = 0.0, np.zeros(len(self._models))
        self._errors = [NumberErrors() for _ in self._models] if tasks.is_regression else []

    def add(self, rows: Segment, decision_values: Array) -> None:
        """Add rows and their decision values (n, width), which columns that only fill the axis have, too."""
        weight = rows.weight if len(rows.weight) else np.ones(len(rows))
        self._weight += float(weight.sum())
        for errors, (column,) in zip(self._errors, self._models, strict=False):
            errors.add(rows.target.astype(float), decision_values[:, column], weight)
        for place, columns in enumerate(self._models if not self._errors else ()):
            values = decision_values[:, columns if len(columns) > 1 else columns[0]]
            self._right[place] += weight[predicted_classes(values) == rows.class_code].sum()

    @property
    def scores(self) -> Array:
        """The score of the model that each task belongs to, (width,); nan: the task makes no model here."""
        scores = np.full(self._width, np.nan)
        for place, columns in enumerate(self._models if self._weight else ()):
            r2 = self._errors[place].figures()["r2"] if self._errors else None
            scores[columns] = (np.nan if r2 is None else r2) if self._errors else self._right[place] / self._weight
        return scores
