"""FASTA: rows that are strings of bases."""
