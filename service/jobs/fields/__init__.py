"""The fields of a job: their types, limits, meanings, and the migration of older ones."""
