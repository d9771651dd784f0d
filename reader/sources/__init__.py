"""Finds files of object stores and shared file systems, reads ranges of them, and deals them to machines."""
