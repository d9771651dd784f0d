"""Evaluates a model on a dataset with labels."""
