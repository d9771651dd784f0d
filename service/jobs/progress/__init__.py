"""The progress of a job: states, history, events, plots."""
