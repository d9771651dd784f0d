"""A machine of a cluster: its agent, its shards, how they are read in, and a reader and a trainer on one shard."""
