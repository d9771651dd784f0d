"""Turns input of any size into a published dataset: decompresses, finds the format, parses, shuffles, renumbers."""
