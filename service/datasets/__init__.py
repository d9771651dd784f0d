"""Datasets by name: a child process reads an upload or an import into one; rows can be added, and a few shown."""
