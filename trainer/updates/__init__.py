"""Visits to rows: they change alpha and w, and are counted in statistics; `convergence` decides when a job is done."""
