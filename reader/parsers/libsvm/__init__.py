"""Parser of LIBSVM text."""
