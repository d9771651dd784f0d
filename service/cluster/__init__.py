"""Jobs on several machines.

`cluster_run` prepares a run with a single process, the coordinator (`process`, `rounds`). The coordinator has the
machines' agents (`nodes`, `machine`) train on their shards (`dataset`). To the worker it is a run like any other. See
trainer.distributed for what differs in a trainer.
"""
