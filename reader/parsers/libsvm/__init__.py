"""The LIBSVM format."""
