"""Jobs on several machines.

`cluster_run` lays out a run whose one process, the coordinator (`process`, `rounds`), has the machines' agents
(`nodes`, `machine`) train on their shards (`dataset`). The worker sees it as any other run. See trainer.distributed for
what differs in a trainer.
"""
