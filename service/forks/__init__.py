"""Processes that begin as copies of a process with loaded libraries: modules that fork them and that await them."""
