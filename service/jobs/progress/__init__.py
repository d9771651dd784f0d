"""How far a job is: states, history, events, plots."""
