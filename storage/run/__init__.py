"""What the processes of a run share, and what a crash leaves of it."""
