"""Translates labels to the numbers by which training knows them, and back."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from streamsvm.reader.parsers.values import word_of
from streamsvm.storage.blocks.manifest import number_text
from streamsvm.storage.features.maps import listed_maps
from streamsvm.storage.models.model_file import Label, Model
from streamsvm.storage.rows.csr import Array


def in_order(model: Model) -> Model:
    """Return the model with its labels sorted; of two labels the larger is first: positive decision values mean it."""
    labels = model.labels
    if model.is_regression:
        return model
    if not model.is_multiclass:
        if labels[0] > labels[1]:  # type: ignore[operator]
            return model
        flipped = None if model.sigmoid is None else tuple((A, -B) for A, B in model.sigmoid)
        return replace(model, w=-model.w, w_bias=-model.w_bias, labels=labels[::-1], sigmoid=flipped)  # type: ignore[operator]
    order = sorted(range(len(labels)), key=lambda place: labels[place])
    if order == list(range(len(labels))):
        return model
    return replace(
        model,
        w=model.w[order],
        w_bias=tuple(model.w_bias[k] for k in order) if model.bias is not None else model.w_bias,  # type: ignore[index]
        labels=tuple(labels[k] for k in order),
        sigmoid=None if model.sigmoid is None else tuple(model.sigmoid[k] for k in order),
    )


def with_absent(model: Model, absent: Sequence[Label]) -> Model:
    """Return the model with more classes, which no row has had so far: each has w = 0 and an intercept of -1."""
    if not absent:
        return model
    w, intercept = np.atleast_2d(model.w), np.atleast_1d(model.intercept)
    if not model.is_multiclass:
        w, intercept = np.vstack([w, -w]), np.concatenate([intercept, -intercept])
    w = np.vstack([w, np.zeros((len(absent), w.shape[1]))])
    w_bias = (*intercept.tolist(), *[-1.0] * len(absent))
    return replace(model, w=w, bias=1.0, w_bias=w_bias, labels=(*model.labels, *absent), sigmoid=None)


def label_array(labels: Sequence[Label]) -> Array:
    """Return labels as an array, (n,); int64 if all are whole numbers, because files hold them as floats."""
    array = np.array(labels)
    is_whole = array.dtype.kind == "f" and (array == np.rint(array)).all() and (np.abs(array) < 2**53).all()
    return array.astype(np.int64) if is_whole else array


def coefficients(model: Model) -> Any:
    """Return the weights of features, (n_values, n_features), in regression (n_features,).

    The matrix is of scipy.sparse if features are so far apart that the model lists their numbers.
    """
    if model.maps is None or model.maps.listed is None or len(model.maps) > 1:
        return model.w if model.is_regression else np.atleast_2d(model.w)
    w, columns = np.atleast_2d(model.w), model.maps.listed - model.index_base
    indptr = np.arange(len(w) + 1) * len(columns)
    return sparse.csr_matrix((w.reshape(-1), np.tile(columns, len(w)), indptr), (len(w), model.n_features))


def with_coefficients(model: Model, changed: Any) -> Model:
    """Return a copy of the model whose weights are `changed`, a scipy.sparse matrix (n_decision_values, n_features)."""
    entries = sparse.coo_matrix(changed)
    columns, place = np.unique(entries.col, return_inverse=True)
    w = np.zeros((entries.shape[0], len(columns)))
    w[entries.row, place] = entries.data
    maps = listed_maps(model.n_features, model.index_base, columns + model.index_base)
    return replace(model, w=w if model.is_multiclass else w[0], maps=maps, mean=None)


class Labels:
    """Numbers labels of any type in the order in which they first occur; `known[i]` is the label with number i."""

    def __init__(self, known: Sequence[Any] = ()) -> None:
        self.known: list[Any] = list(known)
        self._numbers = {label: float(number) for number, label in enumerate(self.known)}

    def encode(self, y: Array) -> Array:
        """Return the numbers (n,) float64 of labels y (n,)."""
        if y.dtype.kind in "mM" and np.isnat(y).any():
            raise ValueError("y contains NaT")
        labels, places = np.unique(y, return_inverse=True)
        return np.array([self._number(label) for label in labels])[places.reshape(len(y))]

    def class_weight(self, weights: Mapping[Any, float]) -> dict[str, float]:
        """Return class weights by the names that a job has for classes. Raises ValueError for a label without rows."""
        unknown = [label for label in weights if label not in self._numbers]
        if unknown:
            known = ", ".join(map(label_text, self.known))
            raise ValueError(f"class_weight names {label_text(unknown[0])}, a label the data does not have: {known}")
        return {number_text(self._numbers[label]): weight for label, weight in weights.items()}

    def decode(self, number: Any) -> Any:
        """Return the label with this number."""
        return self.known[int(number)]

    def _number(self, label: Any) -> float:
        if label not in self._numbers:
            self._numbers[label] = float(len(self.known))
            self.known.append(label)
        return self._numbers[label]


class OwnLabels(Labels):
    """Labels that training takes unchanged: the labels in files, and the targets of regression."""

    def encode(self, y: Array) -> Array:
        """Return y (n,) as float64."""
        return np.asarray(y, np.float64)

    def class_weight(self, weights: Mapping[Any, float]) -> dict[str, float]:
        """Return class weights by the text that each label has in the file."""
        return {label if isinstance(label, str) else number_text(label): weight for label, weight in weights.items()}

    def decode(self, number: Any) -> Any:
        """Return the label unchanged."""
        return number


def is_time(label: Any) -> bool:
    """Tell whether a label is a time or a duration of numpy, whose `item` can have another type."""
    return isinstance(label, np.datetime64 | np.timedelta64)


def stored(label: Any) -> Any:
    """Return a label as models have it: a time becomes a word, other labels stay."""
    return word_of(label) if is_time(label) else label


def label_text(label: Any) -> str:
    """Write a label for a message: words in quotes, numpy's numbers as Python writes numbers."""
    label = stored(label)
    return repr(label.item() if isinstance(label, np.generic) else label)


def balanced(class_sums: Mapping[Any, float]) -> dict[Any, float]:
    """Return class weights that are inversely proportional to the total weight of each class's rows.

    class_sums  class -> sum of its rows' weights, or number of its rows; a class with sum 0 gets the weight 1
    """
    total = sum(class_sums.values())
    return {label: total / (len(class_sums) * weight) if weight else 1.0 for label, weight in class_sums.items()}
