"""The nodes of a Ray cluster: connecting to them, agents on them, machines that are lost."""
