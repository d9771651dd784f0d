"""HTTP, and nothing but: every route asks `service` and shows the answer."""
