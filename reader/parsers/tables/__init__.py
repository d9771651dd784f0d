"""Parsers of tables (CSV and Parquet): columns by name, categories, missing values."""
