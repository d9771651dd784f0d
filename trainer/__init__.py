"""Trains dual variables alpha and weights w on rows: kernels, solvers, and rules for when to stop."""
