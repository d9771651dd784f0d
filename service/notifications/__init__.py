"""Calls the URLs that jobs name in `notify`, when they end."""
