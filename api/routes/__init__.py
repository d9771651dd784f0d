"""The routes of the interface; each module has those of one path."""
