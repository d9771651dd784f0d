"""Renumbers a dataset's features: frequent features first, or columns in the order of their names."""
