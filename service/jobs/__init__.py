"""A job's way: its fields, its plan, the runs of its lanes, its outcome; and, beside them, its progress."""
