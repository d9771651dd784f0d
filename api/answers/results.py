"""The result of a job: certificates, cross-validation and models."""

from streamsvm.api.answers import Answer, Label, field, sometimes


class Certificate(Answer):
    """A certificate of weights over all rows, exact but for rounding. Null: not known, or no finite number."""

    m_plus: float | None = field("M+, the largest projected gradient")
    m_minus: float | None = field("M-, the smallest projected gradient")
    gap: float | None = field("`m_plus` - `m_minus`; null with a kernel, where gradients are not known")
    primal_objective: float | None = field("P = 1/2 |w|^2 + C sum loss")
    dual_objective: float | None = field("D, a lower bound of the optimum")
    relative_duality_gap: float | None = field("(P - D) / P, a bound on the relative distance from the optimum")
    w_error: float | None = field(
        "|w - sum_i alpha_i y_i x_i| / |w|: rounding, but for a job that was ended on its way by Newton steps"
    )


class KernelFigures(Answer):
    """Figures of a kernel machine."""

    gamma: float = field("gamma of the kernel exp(-gamma |x - z|^2)")
    low: float = field("squared distance of rows that 5% of all are below")
    median: float = field("squared distance of rows that half of all are below")
    high: float = field("squared distance of rows that 95% of all are below")
    support_vectors: int = field("number of support vectors")
    merges: int = field("merges of two support vectors")
    weight_degradation: float = field("sum of |f before - f after|^2 over the merges")


class LaneResult(Certificate):
    """The result of a lane: a problem for one class, value of C and fold."""

    class_: Label | None = field(
        "label told from the rest; null in regression, or if all are one problem", alias="class"
    )
    fold: int | None = field("fold that was left out; null: trained on all rows")
    C: float = field("the value of C")
    converged: bool = field("whether it is as near to the optimum as was asked for")
    stop_reason: str = field("what ended it", example="relative_gap")
    passes: int = field("passes over the data")
    machine: KernelFigures = sometimes("figures of a kernel machine")


class Metrics(Answer):
    """Metrics of rows held out; null where these rows do not determine one."""

    accuracy: float | None = sometimes("share of rows whose class is right")
    balanced_accuracy: float | None = sometimes("mean of the recalls of the classes")
    f1: float | None = sometimes("F1 of the first of two classes; of more, the mean over them")
    auc: float | None = sometimes("area under the ROC curve, of two classes")
    log_loss: float | None = sometimes("mean log loss of the probabilities, if there are any")
    mse: float | None = sometimes("of regression: mean squared error")
    mae: float | None = sometimes("of regression: mean absolute error")
    r_squared: float | None = sometimes("of regression: 1 - `mse` / variance of the labels")
    squared_correlation: float | None = sometimes("of regression: LIBLINEAR's squared correlation coefficient")


class CrossValidated(Answer):
    """The cross-validation of one value of C."""

    C: float = field("the value of C")
    folds: list[Metrics] = field("metrics of each fold")
    mean: Metrics = field("their means over the folds")
    std: Metrics = field("their standard deviations over the folds")
    all: Metrics = field("metrics of the rows of all folds together")


class PublishedModel(Answer):
    """A model of a job."""

    C: float = field("its value of C")
    model_id: str = field("its id", example="mdl_01M8BJAJCVF2WHNP7BNYZN1BVC")


class JobResult(Answer):
    """The result of a job."""

    converged: bool = field("whether all of its problems are as near to the optimum as was asked for")
    stop_reason: str = field(
        "what ended it: `tolerance`, `relative_gap`, `max_passes`, `max_seconds` or `stopped`", example="relative_gap"
    )
    passes: int = field("passes over the data")
    certificate: Certificate = field("the worst certificate of its problems")
    machine: KernelFigures = sometimes("figures of a kernel machine")
    lanes: list[LaneResult] = sometimes("each of its problems; jobs of earlier versions lack it")
    sweeps: int = sometimes("sweeps over all rows, of solver streamsvm")
    newton_steps: int = sometimes("Newton steps, of solver streamsvm")
    scans: int = sometimes("scans over all rows by these steps, of solver streamsvm")
    cv: list[CrossValidated] = sometimes("the cross-validation, by C, if folds were asked for")
    selected: float = sometimes("the C that won", alias="selected_C")
    models: list[PublishedModel] = sometimes("its models, by C")
