"""LIBLINEAR, and servers of other libraries, as the benches run them."""
