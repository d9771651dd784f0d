"""Passes at a fixed w: exact objectives, folds' decision values, and what a model is worth on a dataset."""
