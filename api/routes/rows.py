"""Predicts the rows of a request's body in the calling thread, and loads the code for that when the service starts.

Loading takes seconds, and compiling a kernel that no process has compiled yet takes longer. Few rows are predicted in
the event loop, where this would hold up every client, so threads predict all rows until it is done.
"""

import io
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np

from streamsvm.api.requests.body import parse_object, too_large
from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import STORED_TABLES, IndexBase, InputOptions
from streamsvm.reader.parsers.sniff import has_objects, lines_of, with_head
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.predicting.answers import ANSWERS, BinaryFile, Predicted, keep
from streamsvm.service.models.predicting.json_rows import json_documents, json_rows, json_tables
from streamsvm.service.models.predicting.predictor import DEFAULTS, MOST_FEATURES, Prediction, Predictor
from streamsvm.service.models.predicting.raw_rows import TableRows
from streamsvm.service.models.predicting.rows_read import FORMATS, ParserMaker
from streamsvm.service.settings import Settings
from streamsvm.storage.machine.long_work import one_at_a_time
from streamsvm.storage.models.model_file import Model

JSON = "application/json"
TYPES = {
    "text/libsvm": "libsvm",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "text/plain": "text",
    "text/x-fasta": "fasta",
    "application/jsonl": "jsonl",
    "application/x-ndjson": "jsonl",
    "application/vnd.apache.parquet": "parquet",
    "application/vnd.apache.arrow.file": "arrow",
    "application/vnd.apache.arrow.stream": "arrow",
    "application/x-orc": "orc",
    "application/x-npz": "npz",
}
STORED = (*STORED_TABLES, "npz")  # formats that are not read from front to back
_log = logging.getLogger("streamsvm.api")
_TABLE = {
    "format": "csv", "has_names": True, "n_columns": 3, "places": [1, 2], "columns": ["a", "b"], "categorical": ["b"],
    "missing": "zero", "categories": "dictionary", "dictionary": {"b": {"x": 0}},
}  # fmt: skip
_HASHED = {**_TABLE, "categories": "hashed", "n_features": 4}
_NUMBERS = {**_TABLE, "categorical": [], "dictionary": {}}


def predicted_rows(
    settings: Settings,
    predictor: Predictor,
    kind: str,
    options: InputOptions,
    chunks: Iterable[bytes],
    values: BinaryFile,
    parsers: Mapping[str, ParserMaker] = FORMATS,
) -> Predicted:
    """Predict the rows of a body, in the calling thread.

    kind     what `content_type` returns for the request
    options  what the request's parameters say about the rows
    values   an empty file that takes the decision values
    parsers  makes the parser of each format
    Raises ServiceError for the first fault.
    """
    if not kind and not predictor.reads_documents:
        head, chunks = with_head(chunks)
        are_lines = has_objects(head) and [line[:1] for line in lines_of(head)[:2]] == [b"{", b"{"]
        kind = JSON if head.lstrip().startswith(b"{") and not are_lines else ""
    if kind == JSON:
        body = _whole(chunks, settings.max_json_bytes)
        with one_at_a_time(len(body)):
            return _predict_json(values, predictor, body, options.index_base)
    complete = replace(options, format=TYPES[kind] if kind else "auto")
    limits = Limits(settings.max_predict_bytes, max_features=MOST_FEATURES)
    return _keep(values, predictor, predictor.predict_text(chunks, limits, complete, parsers))


def _whole(chunks: Iterable[bytes], most_bytes: int) -> bytes:
    body = b""
    for chunk in chunks:
        body += chunk
        if len(body) > most_bytes:
            raise too_large(most_bytes)
    return body


def _keep(values: BinaryFile, predictor: Predictor, predictions: Iterator[Prediction]) -> Predicted:
    try:
        return keep(predictor, predictions, values)
    except InputError as error:
        raise ServiceError.of(error.problem()) from None


def _predict_json(values: BinaryFile, predictor: Predictor, body: bytes, index_base: IndexBase) -> Predicted:
    try:
        fields = parse_object(body)
    except ServiceError as error:
        if body.lstrip().startswith(b"["):
            error.hint = 'Send the list as the rows of an object: {"rows": [...]}.'
        raise
    if predictor.reads_documents and not _has_features(fields):
        return _keep(values, predictor, predictor.predict_documents(json_documents(fields)))
    table, numbering = json_tables(fields, predictor.input, predictor.index_base), predictor.numbering(index_base)
    if table is None:
        table = TableRows(numbering.renumbered(json_rows(fields, numbering.base, predictor.n_features)), {}, None)
    return _keep(values, predictor, predictor.predict_table(table))


def _has_features(fields: dict[str, Any]) -> bool:
    """Whether a model of documents is sent rows of hashed features."""
    rows = fields.get("rows")
    return isinstance(rows, list) and not any(isinstance(row, str) for row in rows)


class PredictionCode:
    """The code that answers short predictions of linear models, in this process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loaded = Event()

    @property
    def is_loaded(self) -> bool:
        """Whether `load` has ended, and the event loop may predict."""
        return self._loaded.is_set()

    def load(self) -> None:
        """Predict a row in each way the event loop can. A fault is logged, and threads go on predicting everything."""
        try:
            for predictor, kind, body in _rows():
                predicted = predicted_rows(self._settings, predictor, kind, DEFAULTS, [body], io.BytesIO())
                for written in ANSWERS.values():
                    predicted.values.seek(0)
                    b"".join(written(predicted))
        except Exception:
            _log.exception("threads predict all rows: the code of predictions could not be loaded")
        else:
            self._loaded.set()


def _rows() -> Iterator[tuple[Predictor, str, bytes]]:
    """A predictor, the Content-Type of a body, and a body of one row."""
    two, three, hinge = np.ones(2), np.ones((3, 2)), {"loss": "hinge"}
    for model in (
        Model(two, (1.0, -1.0), 1, None, 0.0, hinge),
        Model(three, ("a", "b", "c"), 1, None, (0.0,) * 3, hinge, ((-1.0, 0.0),) * 3),
        Model(two, (), 1, None, 0.0, {"loss": "epsilon_insensitive"}),
    ):
        yield Predictor(model), JSON, b'{"rows": [{"1": 1.5}]}'
        yield Predictor(model), "text/libsvm", b"1 1:1.5 2:1e-3\n"
        yield Predictor(model), "text/csv", b"1.5,2\n"
    for table, n_features in ((_TABLE, 2), (_HASHED, 5), (_NUMBERS, 2)):
        predictor = Predictor(Model(np.ones(n_features), (1.0, -1.0), 1, None, 0.0, {**hinge, "input": table}))
        yield predictor, JSON, b'{"rows": [{"a": 1.5, "b": 2}]}'
        yield predictor, "", b"a,b\n1.5,2\n"
