"""The mathematics: objectives, losses, classes and lanes. Imports storage only; the reader's certificate uses it."""
