"""Brings rows to solvers: from the cache, step by step or block by block, or from disk without the reader.

The life of a row in a job, from its arrival to its last visit. The state files (storage.run.state) hold for each row:

    visited   the last pass in which the trainer visited it
    skipped   the last pass in which it streamed by while it was in the cache
    score     a number that is higher the less training can gain by the row: at its last visit, |G| if the row rested at
              a bound, else minus its term of the duality gap; +inf: left out, or given up (streamsvm_paper)

The reader knows which rows are resident (in the cache) and which are leaving (evicted by the last commit).

    from        what happens                                          to            who decides
    ---------   ---------------------------------------------------   -----------   -----------------------------------
    away        it streams by and is screened; counts as visited      away          stream.screening
    away        it streams by and is not screened                     fresh         stream.arrivals
    fresh       the trainer visits it when it has arrived             resident      solvers.streamsvm
    resident    the trainer visits it in a sweep over the cache       resident      trainer.sweeps.sweep
    resident    it streams by, and waits for a visit from now on      resident      stream.arrivals
    resident    room is needed, it has the highest score and does     leaving       stream.residents
                not wait for a visit
    leaving     the next step is committed                            away          stream.residents
    any         the disk or the cache has all rows: the reader        swept         trainer.rows.disk, .cache
                rests from now on
    swept       a whole sweep visits it; if it rests beyond the       swept         trainer.sweeps.run
                slack, the next short sweeps leave it out
    swept       the disk fails                                        away, or      trainer.rows.disk
                                                                      resident
"""
