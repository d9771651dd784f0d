"""Datasets: compressed blocks, their manifest, and further files about rows and features."""
