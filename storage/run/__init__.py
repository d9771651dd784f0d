"""Files of a run: the state that its processes share, and the checkpoints that a crash leaves."""
