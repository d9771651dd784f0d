"""The request for a prediction of files: model, source, destination and columns."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from streamsvm.reader.options import InputOptions
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.predicting.predictor import Predictor

OUTPUTS = ("label", "decision_value", "probability", "contributions")


# ending of a destination -> format of the predictions
ENDINGS = {".csv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".parquet": "parquet"}
FORMATS = ("csv", "ndjson", "parquet")


@dataclass(frozen=True)
class PredictionRequest:
    """The predictions of a model for the rows of files.

    sources  paths, URLs and patterns; the rows of files follow each other, those of a pattern by name
    dataset  directory of a dataset, whose rows are predicted instead
    options  how the files are read; format "auto": by name, else by content
    format   format of the predictions, one of FORMATS
    keep     names or numbers of columns of the input, to be copied before the predictions
    outputs  columns to predict, of OUTPUTS in this order; regression has `value` in place of the first three
    """

    sources: Sequence[str]
    format: str
    options: InputOptions = field(default_factory=InputOptions)
    keep: tuple[str, ...] = ()
    outputs: tuple[str, ...] = OUTPUTS[:2]
    dataset: Path | None = None


def format_of_destination(destination: str, format_: str | None = None) -> str:
    """Return the predictions' format: `format_`, else that of the file's ending. Raises ServiceError unknown_format."""
    found = format_ or ENDINGS.get(PurePath(destination).suffix.lower())
    if found not in FORMATS:
        hint = f"Let it end in {', '.join(ENDINGS)}, or set format."
        raise ServiceError("unknown_format", "the destination's name does not say the format", hint)
    return found


def outputs_of(predictor: Predictor, wanted: Sequence[str] | None) -> tuple[str, ...]:
    """Return the `wanted` outputs in the order of OUTPUTS; for None, all that the model has except contributions.

    Raises ServiceError no_probabilities, no_contributions, unknown_output.
    """
    if wanted is not None and not set(wanted) <= set(OUTPUTS):
        raise ServiceError("unknown_output", "there is no such output", f"Outputs are {', '.join(OUTPUTS)}.")
    if wanted is not None and "contributions" in wanted and not predictor.can_explain:
        message = "the model has no contributions: it is not linear in the features"
        raise ServiceError("no_contributions", message, "Leave contributions out of outputs.")
    if predictor.is_regression:
        return ("value", *(["contributions"] if "contributions" in (wanted or ()) else []))
    if wanted is None:
        return OUTPUTS[:3] if predictor.has_probabilities else OUTPUTS[:2]
    if "probability" in wanted and not predictor.has_probabilities:
        raise ServiceError(
            "no_probabilities",
            "the model has no probabilities",
            'Leave probability out of outputs, or train with "probability": "sigmoid".',
        )
    return tuple(each for each in OUTPUTS if each in wanted) or OUTPUTS[:1]


def described(request: PredictionRequest) -> dict[str, Any]:
    """Return format, options, columns and outputs as a dict for JSON, by which `Pieces` knows a repeated request."""
    options = {name: getattr(request.options, name) for name in sorted(request.options.given)}
    return {"format": request.format, "options": options, "keep": list(request.keep), "outputs": list(request.outputs)}
