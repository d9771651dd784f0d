"""Parser of FASTA: rows are strings of bases."""
