"""Jobs on several machines.

`cluster_run` lays out a run with a single process, the coordinator (`process`, `rounds`). It tells the machines' agents
(`nodes`, `machine`) to train on their shards (`dataset`). The worker sees it as any other run. See trainer.distributed
for what differs in a trainer.
"""
