"""Parameters of LinearSVC, SVC and SGDClassifier that a job has under another name, for hints."""

COUNTERPARTS = {
    "tol": "relative_gap is how near to the optimum training ends, tolerance is LIBLINEAR's -e",
    "max_iter": "max_passes is the most passes over the data",
    "random_state": "seed is its counterpart, a number",
    "n_jobs": "threads is its counterpart",
    "fit_intercept": '"bias": null trains without an intercept, "bias": 1.0 with one',
    "intercept_scaling": "bias is its counterpart",
    "penalty": "the penalty is always |w|^2 / 2",
    "dual": "solver chooses among dual and primal solvers",
    "multi_class": "multiclass is its counterpart",
    "cache_size": "cache_bytes is its counterpart, in bytes",
    "alpha": "C is its counterpart: 1 / (alpha * n_rows)",
}
