"""The agent's side, on a machine of a cluster: its shards, how they are read in, and a reader and a trainer on one."""
