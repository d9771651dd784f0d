"""Decides on visits: which rows a sweep visits, in which order and how often, and when sweeps end."""
