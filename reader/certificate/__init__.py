"""Passes at a fixed w: exact objectives, folds' decision values, and how good a model is on a dataset."""
