"""Matrices: npz files and batches from Python."""
