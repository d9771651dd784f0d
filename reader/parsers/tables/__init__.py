"""Tables: CSV and Parquet, columns by name, words and gaps among numbers."""
