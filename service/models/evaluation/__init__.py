"""A model held against a labelled dataset."""
