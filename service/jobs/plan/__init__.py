"""From a job's fields and a dataset's manifest to the plan of its run: lanes, memory, blocks, where it starts."""
