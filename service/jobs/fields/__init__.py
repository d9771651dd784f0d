"""The fields of a job: their types, limits and meanings, and the migration of fields that older versions stored."""
