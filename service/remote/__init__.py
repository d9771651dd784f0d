"""A client of a service, over HTTP: connections, and the service's datasets, jobs and models as objects."""
