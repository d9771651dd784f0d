"""Datasets: compressed blocks, their manifest, and what else is known of their rows and features."""
