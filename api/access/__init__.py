"""Decides who may do what: tokens, scopes, logins, hosts."""
