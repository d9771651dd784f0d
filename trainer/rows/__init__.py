"""Where a solver's rows come from: the cache, step by step or block by block, and the trainer's own disk."""
