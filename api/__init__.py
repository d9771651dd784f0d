"""HTTP and pages: a route calls `service` and sends the result."""
