"""A dataset that is spread over machines: its source, its shards, and how the machines read them in."""
