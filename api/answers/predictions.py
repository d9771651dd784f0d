"""Answers to POST /v1/models/{model_id}/predict."""

from streamsvm.api.answers import Answer, Label, field, sometimes


class UnknownColumns(Answer):
    """Columns of a table that the model does not have, and that were left out."""

    count: int = field("number of these columns")
    names: list[str] = field("the first ten names, up to 40 characters of each")


class ClassifiedRow(Answer):
    """The prediction of a model of classes for a row."""

    label: Label = field("label of the predicted class")
    decision_value: float | list[float | None] | None = field(
        "of two classes a number, which is above 0 for the first; of more a list of numbers in the order of `labels`; "
        "null stands for an infinite sum"
    )
    probability: list[float | None] = sometimes("probabilities in the order of `labels`, if the model makes any")


class EstimatedRow(Answer):
    """The prediction of a model of regression for a row."""

    value: float | None = field("the predicted number; null stands for an infinite sum")


class Predictions(Answer):
    """The predictions for the rows of a request."""

    rows: int = field("number of rows")
    unknown_features: int = field("values of features that the model does not know")
    unknown_columns: UnknownColumns = sometimes("columns that the model does not have")
    labels: list[Label] = sometimes("the model's labels; not in regression")
    predictions: list[ClassifiedRow | EstimatedRow] = field("the predictions, in the order of the rows")
