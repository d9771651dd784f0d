"""Predicts rows that come as files, JSON or tables, and matches their features to the model's."""
