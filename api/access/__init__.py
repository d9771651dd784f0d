"""Decides which client may make which request: tokens, scopes, logins."""
