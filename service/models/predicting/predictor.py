"""Predicts rows with a model, as LIBLINEAR's `predict` does, batch by batch."""

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.decompress import decompressed
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import IndexBase, InputOptions
from streamsvm.reader.parsers.base import Parser
from streamsvm.reader.parsers.fasta import is_of_strings
from streamsvm.reader.parsers.forms import settled
from streamsvm.reader.parsers.sniff import with_head
from streamsvm.reader.parsers.tables.matching import Match, shown
from streamsvm.reader.parsers.text.hashed_text import as_input
from streamsvm.reader.parsers.text.parser import DocumentRows
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.predicting.applied import Explained, Explainer, Linear, Mapped, applied
from streamsvm.service.models.predicting.raw_rows import InputNumbering, ParserMaker, TableRows, opened, rows_of_matrix
from streamsvm.storage.blocks.feature_files import FeatureWords
from streamsvm.storage.blocks.manifest import number_text
from streamsvm.storage.machine.thread_work import check_wanted
from streamsvm.storage.models.decision import predicted_classes
from streamsvm.storage.models.model_file import NUMBERED, Label, Model
from streamsvm.storage.models.probability import probabilities
from streamsvm.storage.rows.csr import Array, Rows

# Large, because an unknown feature with a large number is ignored and costs no memory.
MOST_FEATURES = 2**31
DEFAULTS = InputOptions()
_MOST_VALUES = 1 << 18  # decision values in memory


@dataclass(frozen=True)
class Prediction:
    """The predictions of a model for a batch of rows.

    labels            (n_rows,) predicted labels, float64 or text; in regression the decision values
    decision_values   float64, (n_rows,), positive for the first of two labels; or (n_rows, n_classes)
    expected          (n_rows,) labels in the input, of the type of `labels`; nan or "" for a row without a label
    unknown_features  number of stored values of features the model does not know: a linear model ignores them, a
                      kernel machine adds them to the distance from all support vectors, as LIBSVM does
    match             how the columns of a table were matched, and which were left out; None if rows are no table
    explained         contributions of features; None: they were not asked for
    unknown_words     column of a table -> how many of `unknown_features` are unknown words in that column
    """

    labels: Array
    decision_values: Array
    expected: Array
    unknown_features: int
    match: Match | None = None
    explained: Explained | None = None
    unknown_words: Mapping[str, int] = field(default_factory=dict)


class Predictor:
    """Predicts with one model; keeps no state between calls, so that threads may share it.

    model    an attribute, too; its `index_base` is the number of the first feature in the rows to predict
    strict   raise InputError unknown_feature for a feature that the model does not know, instead of counting it
    explainer attribute: makes the contributions of predictions; None: they are not asked for
    """

    def __init__(self, model: Model, *, strict: bool = False) -> None:
        self.strict, self._applied = strict, applied(model)
        self.explainer: Explainer | None = None
        # `w` is a view of the applied weights, so that there is only one copy of them.
        self.model = replace(model, w=self._applied.w)

    @property
    def input(self) -> dict[str, Any] | None:
        """How the rows of training were made, see `Manifest.input`; None: they had numbered features."""
        return self.model.about.get("input")

    @property
    def classes(self) -> tuple[Label, ...]:
        """The model's labels, in the order of decision values and probabilities; () in regression."""
        return self.model.labels

    @property
    def n_values(self) -> int | None:
        """Number of a row's decision values with more than two classes, one for each class; else None."""
        return len(self.classes) if self.model.is_multiclass else None

    @property
    def has_probabilities(self) -> bool:
        """Whether the model has probabilities."""
        return self.model.probability is not None

    @property
    def reads_documents(self) -> bool:
        """Whether the model was trained on documents, and so can read them."""
        return (self.input or {}).get("format") == "text"

    @property
    def is_light(self) -> bool:
        """Whether predicting a few rows of numbers takes well below a millisecond."""
        return isinstance(self._applied, Linear) and not self.reads_documents and self.explainer is None

    def with_strict(self, strict: bool) -> "Predictor":
        """Return a predictor of the same model, and the same weights in memory, whose `strict` is the argument."""
        if strict == self.strict:
            return self
        other = copy.copy(self)
        other.strict = strict
        return other

    def explaining(self, most: int) -> "Predictor":
        """Return a predictor of the same model whose predictions have up to `most` contributions of each row.

        Raises ServiceError no_contributions if decision values are no sums over the features.
        """
        model, weights = self.model, self._applied
        if not isinstance(weights, Linear | Mapped) or not (model.maps is None or model.maps.keeps_numbers):
            raise ServiceError(
                "no_contributions",
                "the model has no contributions: it is not linear in the features",
                "Ask for none, or train without a kernel and without maps that mix features, such as fourier.",
            )
        other = copy.copy(self)
        other.explainer = Explainer(model, weights, most)
        return other

    def predict(self, rows: Rows, words: FeatureWords | None = None) -> Prediction:
        """Predict rows whose features are numbered as the model's; ties are decided as in LIBLINEAR.

        words  of documents: names for contributions
        """
        unknown = self._count_unknown(rows)
        decision = self._applied.of_rows(rows) + self.model.intercept
        why = None if self.explainer is None else self.explainer.explain(rows, decision, words)
        return Prediction(self.labels(decision), decision, rows.label, unknown, None, why)

    def decision_values(self, X: Any) -> Array:
        """Compute (n_rows,) or (n_rows, n_classes) decision values; X (n_rows, n_features) is dense or sparse."""
        found = map(self._applied.of_rows, rows_of_matrix(X, self.model.index_base))
        return np.concatenate(list(found)) + self.model.intercept

    def labels(self, decision_values: Array) -> Array:
        """Return labels (n,) for decision values (n,) or (n, n_classes); in regression, the decision values."""
        if self.model.is_regression:
            return decision_values
        return np.array(self.classes)[predicted_classes(decision_values)]

    def probabilities(self, decision_values: Array) -> Array | None:
        """Return probabilities (n, n_classes) float64, in the order of `classes`; None if the model has none."""
        sigmoid = self.model.probability
        return None if sigmoid is None else probabilities(decision_values, sigmoid)

    def predict_text(
        self,
        chunks: Iterable[bytes],
        limits: InputLimits | None = None,
        options: InputOptions | None = None,
        open_: ParserMaker = opened,
    ) -> Iterator[Prediction]:
        """Predict a file, in chunks of any size, plain or compressed, batch by batch. Raises InputError at a fault.

        options  how to read the file; options that `settled` has returned are used as they are
        open_    makes the parser
        """
        limits = limits or InputLimits(max_features=MOST_FEATURES)
        options, text = options or DEFAULTS, decompressed(chunks, limits)
        if options.like is None:
            head, text = with_head(text)
            options = self.settled(options, head)
        is_numbered = options.format in ("libsvm", "npz")
        numbering = self.numbering(options.index_base if is_numbered else "auto")
        options = replace(options, index_base=numbering.base)
        if is_of_strings(self.input):
            if options.format == "libsvm":
                raise InputError("input_mismatch", "the model takes strings of bases", hint="send FASTA")
        elif options.format == "fasta":
            raise InputError("input_mismatch", "the model takes no strings", hint="send rows as it was trained on")
        parser = open_(options, limits, self.classes)
        if self.explainer is not None:
            parser.note_words()
        known = Counter[str]()
        for rows in parser.parse_chunks(text):
            if (table := parser.to_predict) is None:
                yield from self.predictions(numbering.as_model(rows) if is_numbered else rows, words_of(parser))
                continue
            before, known = known, Counter(parser.unknown_words)
            for prediction in self.predict_table(TableRows(rows, known - before, table.match), words_of(parser)):
                yield replace(prediction, expected=table.expected(prediction.expected))

    def predictions(self, rows: Rows, words: FeatureWords | None = None) -> Iterator[Prediction]:
        """Predict rows in parts of at most _MOST_VALUES decision values, to bound memory if there are many classes."""
        for piece in rows.pieces(max(1, _MOST_VALUES // (self.n_values or 1))):
            check_wanted()
            yield self.predict(piece, words)

    def predict_table(self, table: TableRows, words: FeatureWords | None = None) -> Iterator[Prediction]:
        """Predict a table; if strict, raise InputError unknown_feature for an unknown column or category."""
        columns = [] if table.match is None else table.match.unknown
        if self.strict and (columns or table.unknown):
            what = f"columns ({shown(columns)})" if columns else f"{sum(table.unknown.values())} categories"
            raise InputError(
                "unknown_feature",
                f"there are {what} that the model does not know",
                hint="remove them, or predict without strict",
            )
        unknown_words = table.unknown
        for prediction in self.predictions(table.rows, words):
            unknown = prediction.unknown_features + sum(unknown_words.values())
            yield replace(prediction, unknown_features=unknown, match=table.match, unknown_words=unknown_words)
            unknown_words = {}

    def predict_documents(self, documents: Sequence[str]) -> Iterator[Prediction]:
        """Predict documents, batch by batch. Raises InputError, whose `line` is the document's number from 1."""
        parser = DocumentRows(self._input_of_documents())
        if self.explainer is not None:
            parser.note_words()
        for rows in parser.rows_of(documents):
            yield from self.predictions(rows, words_of(parser))

    def numbering(self, index_base: IndexBase) -> InputNumbering:
        """Make the numbering of an input whose first feature has the number `index_base`."""
        model = self.model
        return InputNumbering(index_base, model.index_base, model.n_features, model.about.get(NUMBERED, True))

    def settled(self, options: InputOptions, head: bytes) -> InputOptions:
        """Fill in options that follow from the model's `input` and a file's `head`, its first PEEK_BYTES."""
        like = self.input or {"n_features": self.model.n_features}
        options = replace(settled(options, head, like, self.classes), like=like)
        if options.format == "npz" and options.index_base == "auto":
            return replace(options, index_base=0)  # the first column of a matrix is the first feature
        if options.format == "text" or (self.reads_documents and options.format != "libsvm"):
            return as_input(options, self._input_of_documents())
        return options

    def _input_of_documents(self) -> dict[str, Any]:
        if self.input is None or not self.reads_documents:
            raise InputError("no_documents", "the model does not say how documents become its features")
        return self.input

    def _count_unknown(self, rows: Rows) -> int:
        if self.model.maps is not None and self.model.maps.shape.strings:
            return 0
        lowest, beyond = self.model.index_base, self.model.index_base + self.model.n_features
        unknown = (rows.indices < lowest) | (rows.indices >= beyond)
        count = int(np.count_nonzero(unknown))
        if count and self.strict:
            feature = int(rows.indices[np.argmax(unknown)])
            raise InputError(
                "unknown_feature",
                f"the model has no feature {feature}: its features are {lowest} to {beyond - 1}",
                hint="remove the features the model was not trained with, or predict without strict",
            )
        return count


def shown_label(label: Label) -> str:
    """Return a label as text: a number has as few digits as read back exactly, and a whole number no decimal point."""
    return label if isinstance(label, str) else number_text(label)


def words_of(parser: Parser) -> FeatureWords | None:
    """Return the words of the documents that the parser has read, if it notes words."""
    return None if parser.words is None else parser.words.in_order()
