"""Files that survive a crash, and how their numbers are encoded."""
