"""HTTP and pages: a route asks `service` and sends what it answers."""
