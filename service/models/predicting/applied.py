"""Computes decision values, without the intercept, for all kinds of models, and the part that each feature has in them.

The contribution of feature j to the decision value of x is w_j (x_j - m_j), and the base value is <w, m> plus the
intercept, where m is the mean of the training rows: these are the SHAP values of a linear model whose features are
independent (Strumbelj, Kononenko 2014; Lundberg, Lee 2017). The base value and all contributions add up to the decision
value.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.tables.mixed import feature_names
from streamsvm.service.models.heaviest import numbers_of
from streamsvm.storage.blocks.feature_files import FeatureWords
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.features.rows import Features, FeaturesError, FeatureStatistics
from streamsvm.storage.features.visits import Visited
from streamsvm.storage.models.decision import KernelMachine, decision_values, predicted_classes
from streamsvm.storage.models.model_file import Model, ModelHead
from streamsvm.storage.models.support_vectors import SupportVectors
from streamsvm.storage.rows.csr import INDEX, INDPTR, LABEL, VALUE, Array, Rows
from streamsvm.storage.rows.segment import NORM, Segment


def applied(model: Model) -> "Linear | AppliedMachine | Mapped":
    """Make the object that computes a model's decision values; threads may share it, for it keeps no state."""
    if model.maps is not None:
        return Mapped(model.maps, model.w, model.index_base)
    return Linear(model) if model.vectors is None else AppliedMachine(model.vectors, model.w)


class Linear:
    """The decision function <w, x> of a linear model; w is (n_features,) or (n_classes, n_features)."""

    def __init__(self, model: Model) -> None:
        self._w = _by_number(model)
        self.w = self._w[..., model.index_base :]

    def of_rows(self, rows: Rows) -> Array:
        """Decision values of rows, (n_rows,) or (n_rows, n_classes); features are numbered as in the input."""
        return decision_values(rows, self._w, 0.0)

    def seen(self, rows: Rows) -> Features:
        """Return the rows as `w` multiplies them: features count from its first; those that it lacks are left out."""
        numbers = rows.indices.astype(np.int64) - (self._w.shape[-1] - self.w.shape[-1])
        return _without_unknown(rows.indptr, numbers, rows.values, 0, self.w.shape[-1])


class AppliedMachine:
    """The decision function sum_s beta_s k(z_s, x); features of the vectors z_s are numbered as the input's."""

    def __init__(self, vectors: SupportVectors, beta: Array) -> None:
        self.w, self._machine = beta, KernelMachine(vectors, beta)

    def of_rows(self, rows: Rows) -> Array:
        """Decision values of rows, (n_rows,) or (n_rows, n_classes); features are numbered as in the input."""
        return self._machine.decision_values(rows)


class Mapped:
    """The decision function <w, maps(x)>; w, (width,) or (n_classes, width), weighs the features that the maps make."""

    def __init__(self, maps: FeatureMaps, w: Array, index_base: int) -> None:
        self.w = w
        self._maps, self._index_base = maps, index_base

    def of_rows(self, rows: Rows | Segment) -> Array:
        """Decision values of rows, (n_rows,) or (n_rows, n_classes); features are numbered as in the input."""
        batches = self._batches(rows.indptr.astype(INDPTR), rows.indices, rows.values.astype(VALUE, copy=False))
        found = [decision_values(batch, self.w, 0.0) for batch in batches]
        return np.concatenate([np.empty((0, *self.w.shape[:-1])), *found])

    def seen(self, rows: Rows) -> Features:
        """Return the rows as `w` multiplies them, mapped."""
        batches = list(self._batches(rows.indptr, rows.indices, rows.values))
        lengths = [np.diff(batch.indptr) for batch in batches]
        return Features(
            np.cumsum(np.concatenate([[0], *lengths])),
            np.concatenate([np.empty(0, INDEX), *(batch.indices for batch in batches)]),
            np.concatenate([np.empty(0, VALUE), *(batch.values for batch in batches)]),
        )

    def _batches(self, indptr: Array, numbers: Array, values: Array) -> Iterator[Segment]:
        features = Features(indptr, numbers.astype(INDEX, copy=False), values)
        if not self._maps.shape.strings:
            features = _without_unknown(indptr, numbers, values, self._index_base, self._maps.shape.width)
        try:
            self._maps.check_row(int(np.diff(features.indptr).max(initial=0)))
        except FeaturesError as error:
            raise InputError(error.code, error.message, hint=error.hint) from None
        rows = Segment.unlabelled(np.zeros(features.n_rows, NORM), *features)
        yield from Visited(self._maps).all_batches(rows)


def _without_unknown(indptr: Array, numbers: Array, values: Array, begin: int, end: int) -> Features:
    """Drop features outside [begin, end), which the model does not know."""
    is_known = (numbers >= begin) & (numbers < end)
    if is_known.all():
        return Features(indptr, numbers.astype(INDEX, copy=False), values)
    ends = np.concatenate(([0], np.cumsum(is_known)))[indptr]
    return Features(ends, numbers[is_known].astype(INDEX), values[is_known])


def _by_number(model: Model) -> Array:
    """Return weights (index_base + n_features,), or (n_classes, ...), w[..., f] for feature f; no copy for base 0."""
    if model.index_base == 0:
        return np.ascontiguousarray(model.w, np.float64)
    w = np.zeros((*model.w.shape[:-1], model.n_features + model.index_base))
    w[..., model.index_base :] = model.w
    return w


MOST_ROWS, MOST_EXPLAINED = 1000, 100  # that are explained in the answer of a request; contributions of each
MOST_USUAL = 60  # columns of a form
_TERMS_AT_ONCE = 1 << 18
_SIGNS = "positive", "negative"


class Explained(NamedTuple):
    """Why n rows have their decision values; with more than two classes, that of the predicted class.

    base_values    (n,) float64
    contributions  feature name -> contribution, the largest magnitudes first, without those that are 0; of each row
    against        "mean": m is the mean of the training rows; "empty_row": that is not known, and m is a row without
                   features
    """

    base_values: Array
    contributions: list[dict[str, float]]
    against: str


class Explainer:
    """Explains decision values of a linear model, with up to `most` contributions of each row.

    weights  the model's, which multiply rows; feature maps, if it has any, keep numbers
    """

    def __init__(self, model: Model, weights: Linear | Mapped, most: int) -> None:
        self.most, self._model, self._weights = most, model, weights
        if model.mean is not None:
            self._mean = model.mean
            return
        # A map may give a row without features a constant.
        empty = weights.seen(Rows(np.zeros(1, LABEL), np.zeros(2, INDPTR), np.empty(0, INDEX), np.empty(0, VALUE)))
        self._mean = np.zeros(model.w.shape[-1])
        self._mean[empty.indices] = empty.values

    def explain(self, rows: Rows, decision: Array, words: FeatureWords | None) -> Explained:
        """Explain decision values (n,) or (n, n_classes) of rows; words: those of documents, by which to name features.

        A row of k features lacks all but k of the features whose absence counts most, and lacks none that counts more:
        few of them are looked at.
        """
        model, seen = self._model, self._weights.seen(rows)
        W, intercept = np.atleast_2d(model.w), np.atleast_1d(model.intercept)
        classes = predicted_classes(decision) if model.is_multiclass else np.zeros(len(rows), np.int64)
        longest = int(np.diff(seen.indptr).max(initial=0))
        base_values, parts = np.empty(len(rows)), list[Any]([((), ())]) * len(rows)
        for class_ in np.unique(classes).tolist():
            w, absent = W[class_], -W[class_] * self._mean
            of_class, large = np.flatnonzero(classes == class_), _largest(absent, self.most + longest)
            base_values[of_class] = intercept[class_] - absent.sum()
            for some in np.array_split(of_class, 1 + len(of_class) * (self.most + longest) // _TERMS_AT_ONCE):
                for row, *found in zip(some.tolist(), *self._terms(seen, some, w, absent, large), strict=True):
                    parts[row] = found
        names = _names(model, sorted({place for places, _ in parts for place in places}), words)
        found = [dict(zip(map(names.__getitem__, places), terms, strict=True)) for places, terms in parts]
        return Explained(base_values, found, "empty_row" if model.mean is None else "mean")

    def _terms(self, seen: Features, some: Array, w: Array, absent: Array, large: Array) -> Any:
        """Return the places in w, and the sizes, of the largest terms of `some` rows (n,): two sequences of n lists."""
        width, lengths, numbers = len(w), np.diff(seen.indptr)[some], np.arange(len(some))
        at = np.repeat(seen.indptr[some] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        present = np.repeat(numbers, lengths) * width + seen.indices[at]
        keys = np.sort(np.concatenate([present, np.add.outer(numbers * width, large).ravel()]))
        keys = keys[np.diff(keys, prepend=-1) > 0]  # np.unique hashes, which takes ten times as long
        terms = absent[keys % width]
        np.add.at(terms, np.searchsorted(keys, present), w[seen.indices[at]] * seen.values[at].astype(np.float64))
        keys, terms = keys[terms != 0], terms[terms != 0]
        order = np.lexsort((keys, -np.abs(terms), keys // width))
        begins = np.searchsorted(keys, np.arange(len(some) + 1) * width)
        order = order[np.arange(len(order)) - begins[keys // width] < self.most]
        ends = np.cumsum(np.minimum(np.diff(begins), self.most))[:-1]
        return tuple([part.tolist() for part in np.split(each[order], ends)] for each in (keys % width, terms))


def joined(parts: list[Explained]) -> Explained:
    """Join the explanations of some batches of rows."""
    base_values = np.concatenate([each.base_values for each in parts])
    return Explained(base_values, [row for each in parts for row in each.contributions], parts[0].against)


def with_mean(model: Model, found: FeatureStatistics | None, manifest: Manifest) -> Model:
    """Return the model with the mean of its training rows, if it is linear, and `usual` values of its columns, if few.

    Both come from the statistics of the dataset. They stay unknown where these do not tell them: rows have weights,
    features are too many or too far apart, or a feature map looks at whole rows.
    `usual`, in `about`, has the mean of each column of numbers, and the most frequent category of the others, by name.
    """
    if manifest.weights or found is None or found.n_rows != manifest.n_rows:
        return model
    found = found.of_width(manifest.input_width)
    if usual := _usual(model, found):
        model = replace(model, about={**model.about, "usual": usual})
    if model.vectors is not None:
        return model
    for each in () if model.maps is None else model.maps.maps:
        if (found := each.map.after(found, each.arrays)) is None:
            return model
    mean = found.sums / found.n_rows
    return replace(model, mean=mean if model.maps is not None else mean[model.index_base :])


def few_columns(model: Model | ModelHead) -> list[str]:
    """Return the names of a model's columns, or numbers of features without names; [] for more than MOST_USUAL."""
    input_, first = model.about.get("input"), model.index_base
    numbers = map(str, range(first, first + model.n_features))
    names = list(islice(numbers if input_ is None else input_.get("columns", ()), MOST_USUAL + 1))
    return names if len(names) <= MOST_USUAL else []


def _usual(model: Model, statistics: FeatureStatistics) -> dict[str, Any]:
    table, first, names = model.about.get("input") or {}, model.index_base, few_columns(model)
    numbers = [name for name in names if name not in table.get("categorical", ())]
    usual = dict(zip(numbers, (statistics.sums[first:] / statistics.n_rows).tolist(), strict=False))
    rows = statistics.rows[first + len(numbers) * (2 if table.get("missing") == "indicator" else 1) :]
    words = ((column, known) for column, known in table.get("dictionary", {}).items() if known)
    return {**usual, **{column: max(known, key=lambda word: rows[known[word]]) for column, known in words}}


def _largest(parts: Array, most: int) -> Array:
    """Return the places (k,), k <= most, of the parts (n,) of largest magnitude, the largest first; none that are 0."""
    places = np.flatnonzero(parts)
    if len(places) > most:
        places = np.sort(places[np.argpartition(-np.abs(parts[places]), most)[:most]])
    return places[np.argsort(-np.abs(parts[places]), kind="stable")]


def _names(model: Model, places: list[int], words: FeatureWords | None) -> dict[int, str]:
    """Name the features at these places of w, each otherwise."""
    numbers = numbers_of(model)[places].tolist()
    names, shown = feature_names(model.about.get("input"), set(numbers), model.index_base), "%d"
    if (model.about.get("input") or {}).get("format") == "text":
        shown = "feature %d"  # a number alone could be a word
        heavy = [each for entry in model.about.get("heaviest", ()) for sign in _SIGNS for each in entry.get(sign, ())]
        names = {each["feature"]: each["word"] for each in heavy if each["word"] != str(each["feature"])}
    if words is not None:
        at = np.flatnonzero(np.isin(words.features, numbers)).tolist()
        names |= {int(words.features[k]): words.words[k].decode() for k in at}
    return {place: names.get(number, shown % number) for place, number in zip(places, numbers, strict=True)}
