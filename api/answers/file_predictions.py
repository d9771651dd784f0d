"""Answers about predictions of files."""

from typing import TYPE_CHECKING, Literal

from streamsvm.api.answers import Answer, field
from streamsvm.service.predictions.spec import PredictionSpec
from streamsvm.service.records.predictions import PREDICTION_STATES

if TYPE_CHECKING:
    State = str
else:
    State = Literal[tuple(PREDICTION_STATES)]


class PredictionProgress(Answer):
    """The progress of a prediction."""

    rows: int = field("rows predicted")
    bytes: int = field("bytes of the input that they were stored in")
    total_bytes: int = field("bytes of the whole input as it is stored")


class PredictionResult(PredictionProgress):
    """The result of a prediction."""

    unknown_features: int = field("stored values of features that the model does not know")


class PredictionFailure(Answer):
    """The reason why a prediction failed."""

    code: str = field("the kind of failure", example="column_missing")
    message: str = field("what happened, for people")
    hint: str = field("what helps, for people; empty if nothing is known to")


class FilePrediction(Answer):
    """A prediction of files: what was asked for, how far it is, and what came of it."""

    id: str = field("its id", example="prd_01M8BJAEG2GZ073NZER7QN7ACC")
    model_id: str = field("id of the model that its reference meant when it was submitted")
    spec: PredictionSpec = field("what was asked for")
    state: State = field("its state; predictions that are succeeded, failed or cancelled have ended")
    attempt: int = field("attempts begun; more than one after crashes")
    created_at: str = field("time of the request, UTC", example="2026-11-25T09:17:25.382Z")
    started_at: str | None = field("time at which the first attempt began; null before")
    finished_at: str | None = field("time at which it ended; null before")
    requested: Literal["cancel"] | None = field("`cancel` if that was asked for while it ran; else null")
    progress: PredictionProgress | None = field("how far it is; null before its first piece")
    result: PredictionResult | None = field("what it came to; null until it has succeeded")
    failure: PredictionFailure | None = field("why it failed; else null")


class FilePredictions(Answer):
    """A page of predictions of files."""

    predictions: list[FilePrediction] = field("the predictions, the newest first")
    next_page_token: str | None = field("`page_token` of the page with older ones; null: there are none")
