"""A request on its way in: limits on its body and time, its options, its line in the log."""
