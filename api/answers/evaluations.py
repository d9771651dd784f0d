"""Answers to POST /v1/models/{model_id}/evaluate."""

from streamsvm.api.answers import Answer, Label, field, sometimes
from streamsvm.api.answers.predictions import UnknownColumns


class Evaluated(Answer):
    """An evaluation of a model on a dataset; where rows have weights, each counts as much as it weighs."""

    model_id: str = field("id of the model", example="mdl_01M8BJAJCVF2WHNP7BNYZN1BVC")
    dataset: str = field("name of the dataset", example="rcv1")
    rows: int = field("rows of the dataset")
    weighted: bool = field("whether rows have weights")
    weight_sum: float = sometimes("sum of the weights, if rows have some")
    unknown_columns: UnknownColumns = sometimes("columns that the model does not have")
    objective: float | None = field(
        "the objective of training on these rows; null if the model does not say its problem"
    )
    unknown_features: int = field("values of features that the model does not know")


class Confusion(Answer):
    """Rows, or their weights, by true and predicted class."""

    labels: list[Label] = field("labels of the rows and columns")
    rows: list[list[float]] | None = field(
        "for each true class: rows by predicted class; null for more than 1,000 classes"
    )


class ClassFigures(Answer):
    """Figures of a class; null where they would divide by 0."""

    label: Label = field("its label")
    rows: int = field("rows of this class")
    weight: float = sometimes("their weight, if rows have weights")
    precision: float | None = field("share of the rows predicted so that are of this class")
    recall: float | None = field("share of the rows of this class that are predicted so")
    f1: float | None = field("harmonic mean of precision and recall")


class ReliabilityBin(Answer):
    """Rows with about the same predicted probability; null in a bin without rows."""

    from_: float = field("least probability", alias="from")
    to: float = field("largest probability")
    rows: int = field("rows in this bin")
    weight: float = sometimes("their weight, if rows have weights")
    probability: float | None = field("mean of the predicted probabilities")
    share: float | None = field("share of the rows of which it was true")


class ClassEvaluation(Evaluated):
    """An evaluation of a model of classes."""

    accuracy: float = field("share of rows whose class is right")
    balanced_accuracy: float = field("mean of the recalls of those classes that have rows")
    confusion: Confusion = field("rows by true and predicted class")
    classes: list[ClassFigures] = field("figures of each class, in the order of the model's labels")
    auc: float | None = sometimes("of two classes: area under the ROC curve; null if a class has no rows")
    log_loss: float = sometimes("mean log loss, if the model makes probabilities")
    brier_score: float = sometimes("Brier score, if the model makes probabilities")
    reliability: list[ReliabilityBin] = sometimes("ten bins of probabilities, if the model makes any")


class NumberEvaluation(Evaluated):
    """An evaluation of a model of regression."""

    mean_squared_error: float = field("mean squared error")
    r_squared: float | None = field("1 - mean squared error / variance of the labels; null if labels are all the same")
