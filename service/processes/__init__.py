"""The processes of a service: the worker, the runs it starts, how they are forked, watched, logged and ended."""
