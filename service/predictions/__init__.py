"""Predicts files to files on all cores, in pieces, so that a killed prediction goes on where it was."""
