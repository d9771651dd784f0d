"""Kernel machines that jobs have left behind, and the data that the experiments train them on."""
