"""Files that survive a power cut, and the encoding of numbers in them."""
