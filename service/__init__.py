"""Owns datasets, jobs and models: their records, their processes, their files."""
