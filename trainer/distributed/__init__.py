"""What differs when a machine trains on a shard: rounds, and rows that another machine trains for a while."""
