"""Numbers a dataset's features anew, the frequent ones first."""
