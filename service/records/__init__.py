"""The one SQLite file of a data directory: records of datasets, jobs, predictions, models and tokens."""
