"""The trainer of a job on several machines, each of which has a shard of the rows.

`shard` ends each pass with a round of `cocoa_round`, in which all machines agree on a step. `active_row_export` writes
rows for the coordinator, which trains those of all machines with `active_set_solver`. `newton_rows` answers requests of
Newton steps over the rows of all machines.
"""
