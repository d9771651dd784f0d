"""Who may do what: tokens, scopes, logins, hosts."""
