"""The outcome of a job: the models of its lanes, its cross-validation, and its result."""
