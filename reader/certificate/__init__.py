"""Passes over all rows at a fixed w: exact objectives, decision values of held-out folds, and a model's evaluation."""
