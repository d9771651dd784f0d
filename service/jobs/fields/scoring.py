"""The scores by which C is chosen, in scikit-learn's words, and the figure of a cross-validation that each is of."""

from collections.abc import Container

# `neg_` begins the names of scores that are a figure negated: of these figures less is better.
OF_CLASSES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced_accuracy",
    "f1": "f1",
    "f1_macro": "f1_macro",
    "roc_auc": "auc",
    "average_precision": "average_precision",
    "neg_log_loss": "log_loss",
}
OF_NUMBERS = {"neg_mean_squared_error": "mse", "neg_mean_absolute_error": "mae", "r2": "r2"}
OF_TWO_CLASSES = ("roc_auc", "average_precision")
FIGURE_OF = OF_CLASSES | OF_NUMBERS

# Values of the field `select_by` of versions before 0.3 -> scores; other values have the same name.
BEFORE = {
    "auc": "roc_auc",
    "log_loss": "neg_log_loss",
    "mse": "neg_mean_squared_error",
    "mae": "neg_mean_absolute_error",
    "r_squared": "r2",
}


def sign_of(scoring: str) -> float:
    """Return 1, or -1 for a score of whose figure less is better."""
    return -1.0 if scoring.startswith("neg_") else 1.0


def figure_among(known: Container[str], scoring: str) -> str:
    """Return the name of the score's figure in a result, where versions before 0.3 call r2 r_squared."""
    figure = FIGURE_OF[scoring]
    return figure if figure in known else "r_squared"
