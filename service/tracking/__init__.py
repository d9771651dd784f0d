"""Logs jobs that have ended to an MLflow server: parameters, the figures of each pass, the result and the models."""
