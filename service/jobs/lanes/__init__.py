"""The lanes of a job: folds, classes and values of C, and the files they leave."""
