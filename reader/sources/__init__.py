"""Files of object stores and shared file systems: found, read in ranges, cut at line ends, dealt to machines."""
