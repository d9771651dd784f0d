"""A visit to a row: alpha and w change, statistics are kept, and one module says when a job is done."""
