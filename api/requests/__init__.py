"""Handles requests before a route does: limits of body and time, query parameters, repetitions, the log."""
