"""Predicts the rows of a request's body in the calling thread; loads the code of predictions when the service starts.

Loading takes seconds, and compiling a kernel that no process has compiled yet takes longer. In the event loop, which
predicts bodies of a few rows, this would hold up every client: until the code is loaded, threads predict all rows.
"""

import io
import logging
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from threading import Lock

from streamsvm.api.requests.body import parse_object
from streamsvm.reader.errors import InputError
from streamsvm.reader.options import STORED_TABLES, IndexBase, InputOptions
from streamsvm.reader.parsers.sniff import has_objects, lines_of
from streamsvm.service.errors import ServiceError, refusing
from streamsvm.service.models.loaded import samples
from streamsvm.service.models.predicting.answers import ANSWERS, BinaryFile, Predicted, keep
from streamsvm.service.models.predicting.predictor import DEFAULTS, Prediction, Predictor
from streamsvm.service.models.predicting.raw_rows import TableRows, json_documents, json_rows, json_tables

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
FORMAT_OF_OBJECTS = "json"  # one object that has all rows, see `json_rows`
STORED = (*STORED_TABLES, "npz")  # formats that are not read from front to back
# Large bodies of JSON wait for each other: several threads at work in Python would keep the event loop waiting.
_LARGE_BYTES, _large = 1 << 16, Lock()
_log = logging.getLogger("streamsvm.api")


def predicted_rows(
    predictor: Predictor, options: InputOptions, chunks: Iterable[bytes], values: BinaryFile
) -> Predicted:
    """Predict the rows of a short body, in the calling thread.

    options  options of the rows, from the query parameters, and their format
    values   an empty file that takes the decision values
    Raises ServiceError for the first fault.
    """
    with refusing(InputError):
        if options.format != FORMAT_OF_OBJECTS:
            return keep(predictor, predictor.predict_text(chunks, None, options), values)
        body = b"".join(chunks)
        with nullcontext() if len(body) < _LARGE_BYTES else _large:
            return keep(predictor, _of_json(predictor, body, options.index_base), values)


def format_of(predictor: Predictor, kind: str, head: bytes) -> str:
    """Return the format of a body that begins with `head`; "auto": `Predictor.settled` finds it out.

    kind  Content-Type of the request as `content_type` returns it
    """
    if kind or predictor.reads_documents or not head.lstrip().startswith(b"{"):
        return {**TYPES, JSON: FORMAT_OF_OBJECTS}.get(kind, "auto")
    are_lines = has_objects(head) and [line[:1] for line in lines_of(head)[:2]] == [b"{", b"{"]
    return "auto" if are_lines else FORMAT_OF_OBJECTS


def _of_json(predictor: Predictor, body: bytes, index_base: IndexBase) -> Iterator[Prediction]:
    try:
        fields = parse_object(body)
    except ServiceError as error:
        if body.lstrip().startswith(b"["):
            error.hint = 'Send the list as the rows of an object: {"rows": [...]}.'
        raise
    rows = fields.get("rows")
    # A model of documents may be sent rows of hashed features.
    if predictor.reads_documents and not (isinstance(rows, list) and not any(isinstance(row, str) for row in rows)):
        return predictor.predict_documents(json_documents(fields))
    table, numbering = json_tables(fields, predictor.input, predictor.model.index_base), predictor.numbering(index_base)
    if table is None:
        table = TableRows(numbering.renumbered(json_rows(fields, numbering.base, predictor.model.n_features)), {}, None)
    return predictor.predict_table(table)


class PredictionCode:
    """Loads the code that predicts a few rows by linear models in the event loop."""

    is_loaded = False  # whether `load` has succeeded, so that the event loop may predict

    def load(self) -> None:
        """Predict rows of every kind, so that code is loaded. An error is logged; threads then predict all rows."""
        try:
            for predictor, format_, body in samples():
                predicted = predicted_rows(predictor, replace(DEFAULTS, format=format_), [body], io.BytesIO())
                for written in ANSWERS.values():
                    b"".join(written(predicted))
        except Exception:
            _log.exception("threads predict all rows: the code of predictions could not be loaded")
        else:
            self.is_loaded = True
