"""The trainer of a job on several machines, each of which has a shard of the rows.

`shard` ends each pass with a round of `cocoa_round`, in which all machines agree on a step along their changes of alpha
and which also answers requests of Newton steps. `active_row_export` writes active rows for the coordinator, which
trains the active rows of all machines with `active_set_solver`.
"""
