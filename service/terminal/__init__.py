"""Code that commands share: it reads arguments, shows jobs, and finds the service."""
