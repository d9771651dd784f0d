"""Answers about models."""

from typing import Literal

from streamsvm.api.answers import Answer, Label, field, sometimes
from streamsvm.api.answers.inputs import FeatureMap, RowsInput
from streamsvm.api.answers.jobs import JobFields
from streamsvm.api.answers.results import Certificate
from streamsvm.service.models.formats import SUFFIXES


class ModelRecord(Answer):
    """A model on record."""

    id: str = field("id of the model", example="mdl_01M8BJAJCVF2WHNP7BNYZN1BVC")
    job_id: str = field(
        "id of the job that made it; empty if that is not known", example="job_01M8BJAEG2GZ073NZER7QN7ACC"
    )
    created_at: str = field("time at which it was published, UTC", example="2026-11-25T09:18:58.898Z")


class TrainedOn(Answer):
    """The dataset that a model was trained on."""

    name: str = field("its name then")
    uid: str = field("id of its contents then")


class HeavyWord(Answer):
    """A word with a large weight."""

    word: str = field("the word")
    feature: int = field("number of its feature")
    weight: float = field("its weight")


class HeavyWords(Answer):
    """The words with the largest weights of a class."""

    label: Label | None = field("label that they speak for; of two labels the first; null in regression")
    positive: list[HeavyWord] = field("words that speak for it, heaviest first")
    negative: list[HeavyWord] = sometimes("words that speak against it, heaviest first; not of several classes")


class Model(ModelRecord):
    """A model, its certificate and where it comes from."""

    features: int = field("number of features of a row")
    labels: list[Label] = field(
        "its labels; of two, the first is meant by decision values above 0; empty in regression"
    )
    index_base: int = field("number of the first feature, 0 or 1")
    bias: float | None = field("value of a constant feature; null: there is none")
    maps: list[FeatureMap] = field("feature maps that rows go through, in order")
    kernel: Literal["linear", "rbf"] = field("`linear`, or `rbf`: a kernel machine")
    gamma: float | None = field("gamma of the kernel; null of a linear model")
    support_vectors: int | None = field("number of support vectors; null of a linear model")
    probability: Literal["sigmoid", "logistic"] | None = field("how it makes probabilities; null: it makes none")
    formats: list[Literal[tuple(SUFFIXES)]] = field(  # type: ignore[valid-type]
        "formats that can hold it; the first is the default of a download"
    )
    input: RowsInput | None = field("how rows are made of documents, tables or strings; null: features are numbered")
    dataset: TrainedOn | None = field("the dataset; null if that is not known")
    spec: JobFields | None = field("fields of the job, with the C of this model; null if they are not known")
    converged: bool | None = field("whether training came as near to the optimum as was asked for; null: not known")
    stop_reason: str | None = field("what ended training; null: not known", example="relative_gap")
    passes: int | None = field("passes over the data; null: not known")
    certificate: Certificate | None = field("certificate over all rows; null: there is none")
    heaviest: list[HeavyWords] | None = field("of documents: words with the largest weights; else null")


class Models(Answer):
    """All models."""

    models: list[ModelRecord] = field("the models, the newest first")
