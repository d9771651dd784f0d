"""Files of a run: the state that its processes share, and the checkpoints from which a later run can continue."""
