"""Predicts rows that come as text, JSON or tensors, and matches their features to the model's."""
