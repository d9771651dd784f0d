"""Turns rows into alpha and w: kernels, solvers, stop rules. Knows nothing of files or HTTP."""
