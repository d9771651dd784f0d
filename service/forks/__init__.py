"""Processes that begin as copies of one that has loaded its libraries: who forks them, and who awaits them."""
