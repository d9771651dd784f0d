"""What commands share: how they read arguments, show jobs, and find the service."""
