"""The nodes of a Ray cluster: connecting, agents on them, machines that are lost."""
