"""Kernel machines on a budget against LIBSVM, BSGD and Nystroem's features: accuracy, objective, speed and memory."""
