"""The way of a job: its fields, its plan, the runs of its lanes, its outcome; and, beside these, its progress."""
