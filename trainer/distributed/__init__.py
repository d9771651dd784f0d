"""The trainer of a job on several machines, each of which has a shard of the rows.

`shard` follows the orders of the coordinator (`messages`): it trains for a round, certifies, answers requests of Newton
steps, or has `ActiveRowExport` export active rows, which the coordinator trains with those of all machines (`pool`).
"""
