"""Datasets: compressed blocks, the manifest, and further files about a dataset's rows and features."""
