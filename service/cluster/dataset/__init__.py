"""A dataset that is spread over machines: where it came from, its shards, and how they are read in."""
