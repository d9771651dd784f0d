"""Predictions: rows as text, JSON or tensors, matched to a model's features."""
