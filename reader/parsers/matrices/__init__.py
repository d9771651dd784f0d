"""Parsers of matrices: npz files, and batches from Python."""
