"""Files that survive a power cut, arrays in files, reads past the page cache, and the encoding of numbers."""
