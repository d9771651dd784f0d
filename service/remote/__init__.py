"""A service elsewhere, over HTTP: connections, and its datasets, jobs and models as objects."""
