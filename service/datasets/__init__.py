"""Datasets by name: uploaded or imported, read in by a process of their own, added to, shown."""
