"""Predicts files into files on all cores, unit by unit, so that a killed prediction continues at the next unit."""
